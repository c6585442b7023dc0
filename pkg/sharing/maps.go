package sharing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

const (
	// mostEntries and mostBytes are up to which size a map is shared: larger ones
	// are seldom equal.
	mostEntries = 4
	mostBytes   = 512
	// generation bounds how many maps are remembered for a while: twice as many.
	generation = 1 << 15
)

// Maps has one of each of the maps that were seen lately. The zero value is ready.
type Maps struct {
	interned[map[string]string]
	// MostBytes is up to how many bytes of text a map is shared; default 512.
	MostBytes int
	// Most is how many maps are remembered for a while, twice; default 32768.
	Most int
}

// Intern returns a map equal to m: the one that all others get who ask with an equal
// one. Neither m nor the result may be changed afterwards.
func (s *Maps) Intern(m map[string]string) map[string]string {
	if len(m) == 0 || len(m) > mostEntries || size(m) > cmp.Or(s.MostBytes, mostBytes) {
		return m
	}
	var buffer [mostBytes + 4*mostEntries]byte
	return s.intern(content(buffer[:0], m), m, cmp.Or(s.Most, generation))
}

// size is how many bytes of text m has.
func size(m map[string]string) int {
	n := 0
	for name, value := range m {
		n += len(name) + len(value)
	}
	return n
}

// content appends what m says to buffer, the same for equal maps only: each
// text is preceded by its length.
func content(buffer []byte, m map[string]string) []byte {
	var names [mostEntries]string
	sorted := names[:0]
	for name := range maps.Keys(m) {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		for _, text := range [...]string{name, m[name]} {
			buffer = binary.AppendUvarint(buffer, uint64(len(text)))
			buffer = append(buffer, text...)
		}
	}
	return buffer
}

// Check reports maps that somebody changed although they are shared.
func (s *Maps) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, known := range []map[string]map[string]string{s.older, s.recent} {
		for key, m := range known {
			if len(m) > mostEntries || size(m) > cmp.Or(s.MostBytes, mostBytes) || string(content(nil, m)) != key {
				errs = append(errs, fmt.Errorf("a shared map was changed: %q is now %v", key, m))
			}
		}
	}
	return errors.Join(errs...)
}
