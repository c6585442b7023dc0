package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// standstillInterval is how often a process notes that it runs, and standstillTimeout after how long without that
	// it stood still: longer than a busy machine has it wait.
	standstillInterval = time.Second
	standstillTimeout  = 5 * time.Second
)

// Standstill measures for how long this process stood still: it was stopped, or its machine was. Time passed meanwhile
// for everybody else, who could neither be heard nor get anything from it. So what is waited for here, as that others
// see what was written, or show that they live, has had no time then.
type Standstill struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	// ran is when it is known to have run last; zero: it is not watched.
	ran   time.Time
	stood time.Duration
	ended time.Time
}

// NewStandstill returns one that measures nothing before Run. One is enough for a process.
func NewStandstill(c clock.PassiveClock) *Standstill { return &Standstill{clock: c} }

// Run measures until ctx ends.
func (s *Standstill) Run(ctx context.Context) {
	s.mu.Lock()
	s.ran = s.clock.Now()
	s.mu.Unlock()
	ticker := time.NewTicker(standstillInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.Stood()
		}
	}
}

// Since is a time, or if it is later what lies some time after the process went on last.
func (s *Standstill) Since(at time.Time, after time.Duration) time.Time {
	if _, ended := s.Stood(); !ended.IsZero() && ended.Add(after).After(at) {
		return ended.Add(after)
	}
	return at
}

// Stood is for how long the process stood still in all, and when it went on last; zero: it did not. Who asks first
// after that gets it, too.
func (s *Standstill) Stood() (total time.Duration, ended time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ran.IsZero() {
		return 0, time.Time{}
	}
	now := s.clock.Now()
	if gap := now.Sub(s.ran); gap > standstillTimeout {
		s.stood, s.ended = s.stood+gap, now
	}
	s.ran = now
	return s.stood, s.ended
}
