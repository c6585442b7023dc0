package controller

import "sync"

// seen is the highest resource version that is known of a resource of one server:
// from lists, events, bookmarks and answers to own writes. Every server that went
// on from there has a higher one, or the same.
type seen struct {
	mu      sync.Mutex
	highest string
	// past counts how often the server went back: what was asked for before counts
	// for nothing.
	past int
}

// raise notes a version.
func (s *seen) raise(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.highest == "" || older(s.highest, version) {
		s.highest = version
	}
}

// mark is the state to which an answer is compared: it must be taken before the
// question is sent, as an own write may be answered before the question.
func (s *seen) mark() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mark{s.highest, s.past}
}

// mark is what had been seen at a moment.
type mark struct {
	highest string
	past    int
}

// went compares the newest version that the server has with what had been seen
// before it was asked; nil if it did not go back, or that is known already.
func (s *seen) went(before mark, now string) *regress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before.past != s.past || !older(now, before.highest) {
		return nil
	}
	return &regress{had: before.highest, has: now, past: before.past}
}

// forget begins anew.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.highest = ""
	s.past++
}
