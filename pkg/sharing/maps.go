package sharing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
)

const (
	// mostEntries and mostBytes are up to which size a map is shared: larger ones
	// are seldom equal.
	mostEntries = 4
	mostBytes   = 512
	// generation bounds how many maps are remembered for a while: twice as many.
	generation = 1 << 15
	// mostValue is up to how many bytes the texts of a map are shared with other maps.
	mostValue = 256
)

// Maps has one of each of the maps that were seen lately, and of the texts in them. The
// zero value is ready.
type Maps struct {
	// MostEntries is up to how many entries a map is shared; default 4.
	MostEntries int
	// MostBytes is up to how many bytes of text a map is shared; default 512.
	MostBytes int
	// Most is how many maps are remembered for a while, twice; default 32768.
	Most int

	mu sync.Mutex
	// recent and older have maps by the hash of what they say, in generations as interned.
	recent, older map[uint64]map[string]string
	texts         texts
	seed          maphash.Seed
}

// Intern returns a map equal to m: the one that all others get who ask with an equal
// one. Neither m nor the result may be changed afterwards.
func (s *Maps) Intern(m map[string]string) map[string]string {
	if !s.shares(m) {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent == nil {
		s.recent, s.seed = map[uint64]map[string]string{}, maphash.MakeSeed()
	}
	hash := s.hash(m)
	if known, ok := s.recent[hash]; ok && maps.Equal(known, m) {
		return known
	}
	if known, ok := s.older[hash]; ok && maps.Equal(known, m) {
		m = known
	} else {
		m = s.withTexts(m)
	}
	if len(s.recent) >= cmp.Or(s.Most, generation) {
		s.older, s.recent = s.recent, map[uint64]map[string]string{}
	}
	s.recent[hash] = m
	return m
}

func (s *Maps) shares(m map[string]string) bool {
	return len(m) > 0 && len(m) <= cmp.Or(s.MostEntries, mostEntries) && size(m) <= cmp.Or(s.MostBytes, mostBytes)
}

// withTexts is m with the texts that other maps have.
func (s *Maps) withTexts(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for name, value := range m {
		if len(value) <= mostValue {
			value = s.texts.intern(value, kinds)
		}
		out[s.texts.intern(name, kinds)] = value
	}
	return out
}

// size is how many bytes of text m has.
func size(m map[string]string) int {
	n := 0
	for name, value := range m {
		n += len(name) + len(value)
	}
	return n
}

// hash is the same for equal maps: each text is preceded by its length.
func (s *Maps) hash(m map[string]string) uint64 {
	var names [16]string
	sorted := names[:0]
	for name := range m {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	var h maphash.Hash
	h.SetSeed(s.seed)
	write := func(text string) {
		var length [binary.MaxVarintLen64]byte
		_, _ = h.Write(length[:binary.PutUvarint(length[:], uint64(len(text)))])
		_, _ = h.WriteString(text)
	}
	for _, name := range sorted {
		write(name)
		write(m[name])
	}
	return h.Sum64()
}

// Check reports maps that somebody changed although they are shared.
func (s *Maps) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, known := range []map[uint64]map[string]string{s.older, s.recent} {
		for hash, m := range known {
			if !s.shares(m) || s.hash(m) != hash {
				errs = append(errs, fmt.Errorf("a shared map was changed, it is now %v", m))
			}
		}
	}
	return errors.Join(errs...)
}
