package sharing

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func same(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func TestEqualMapsBecomeOne(t *testing.T) {
	t.Parallel()
	var s Maps
	first := s.Intern(map[string]string{"a": "1", "b": "2"})
	if again := s.Intern(map[string]string{"b": "2", "a": "1"}); !same(first, again) {
		t.Error("an equal map is another one")
	}
	if other := s.Intern(map[string]string{"a": "12", "b": ""}); same(first, other) {
		t.Error("a map that is not equal is the same one")
	}
}

func TestLargeAndEmptyMapsAreLeftAlone(t *testing.T) {
	t.Parallel()
	var s Maps
	many := map[string]string{}
	for i := range mostEntries + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, m := range []map[string]string{nil, {}, many, {"long": strings.Repeat("x", mostBytes)}} {
		if got := s.Intern(m); !same(got, m) {
			t.Errorf("%v became another map", m)
		}
	}
	if len(s.recent) != 0 {
		t.Errorf("%d maps are remembered", len(s.recent))
	}
}

// The contents must tell any two maps apart: otherwise one logical cluster would
// see the labels of another one.
func TestAMapIsEqualToWhatItBecomes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	s := Maps{Most: 50}
	text := func() string {
		b := make([]byte, random.IntN(4))
		for i := range b {
			b[i] = "\x00\x01\x02ab"[random.IntN(5)]
		}
		return string(b)
	}
	for range 20_000 {
		m := map[string]string{}
		for range random.IntN(mostEntries + 2) {
			m[text()] = text()
		}
		if got := s.Intern(maps.Clone(m)); !maps.Equal(got, m) {
			t.Fatalf("%q became %q", m, got)
		}
		if len(s.recent) > s.Most || len(s.older) > s.Most {
			t.Fatalf("%d and %d maps are remembered, more than %d", len(s.recent), len(s.older), s.Most)
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsAskedForIsNotForgotten(t *testing.T) {
	t.Parallel()
	s := Maps{Most: 10}
	often := s.Intern(map[string]string{"often": "asked for"})
	for i := range 100 {
		s.Intern(map[string]string{"n": fmt.Sprint(i)})
		if got := s.Intern(map[string]string{"often": "asked for"}); !same(got, often) {
			t.Fatalf("forgotten after %d others", i+1)
		}
	}
}

func TestCheckFindsAChangedMap(t *testing.T) {
	t.Parallel()
	var s Maps
	m := s.Intern(map[string]string{"a": "1"})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	m["a"] = "2"
	if err := s.Check(); err == nil {
		t.Error("the change was not found")
	}
}
