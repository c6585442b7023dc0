package reads

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	timeout    = 30 * time.Second
	remembered = 10 * time.Second
)

// store is what a test has stored under each key, and how often it was read.
type store struct {
	mu    sync.Mutex
	has   []string
	fails error
	reads int
}

func (s *store) put(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = names
}

func (s *store) read(context.Context, string) ([]string, error) {
	s.mu.Lock()
	s.reads++
	has, err := slices.Clone(s.has), s.fails
	s.mu.Unlock()
	time.Sleep(time.Second) // what is written from now on is not in it
	return has, err
}

func get(t *testing.T, shared *Shared[string, []string]) []string {
	t.Helper()
	names, err := shared.Get(t.Context(), "web")
	if err != nil {
		t.Error(err)
	}
	return names
}

func TestThoseWhoAskTogetherShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{has: []string{"robot"}}
		shared := New(timeout, remembered, s.read)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if got := get(t, shared); !slices.Contains(got, "robot") {
					t.Errorf("what is there is not found: %v", got)
				}
			})
		}
		all.Wait()
		together := s.reads
		if together > 2 { // for those who came before the first began, and for all others
			t.Errorf("%d reads for 100 who ask at a time", together)
		}
		if got := get(t, shared); s.reads != together+1 || len(got) != 1 {
			t.Errorf("%v of %d reads after %d: who comes later gets what was read before", got, s.reads, together)
		}
		time.Sleep(remembered / 2)
		if last, ok := shared.Last("web"); !ok || !slices.Contains(last, "robot") {
			t.Errorf("what was read last is %v, remembered %v", last, ok)
		}
		if _, ok := shared.Last("db"); ok || s.reads != together+1 {
			t.Error("what was never read is remembered, or was read")
		}
		time.Sleep(remembered)
		if last, ok := shared.Last("web"); ok {
			t.Errorf("what was read long ago is %v", last)
		}
		time.Sleep(remembered)
		if len(shared.known) > 0 {
			t.Errorf("%d keys are remembered for ever", len(shared.known))
		}
	})
}

func TestWhatIsWrittenBeforeTheQuestionIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		shared := New(timeout, remembered, s.read)
		go func() { _, _ = shared.Get(t.Context(), "web") }()
		time.Sleep(time.Millisecond) // its read has begun
		s.put("robot")
		if got := get(t, shared); !slices.Contains(got, "robot") {
			t.Errorf("%v", got)
		}
		time.Sleep(2 * remembered)
	})
}

func TestAReadThatFailsIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{has: []string{"robot"}, fails: errors.New("no quorum")}
		shared := New(timeout, remembered, s.read)
		fails := func(what string) {
			t.Helper()
			if _, err := shared.Get(t.Context(), "web"); err == nil {
				t.Errorf("%s: no error", what)
			}
			if last, ok := shared.Last("web"); ok {
				t.Errorf("%s: %v is remembered", what, last)
			}
		}
		fails("a read that fails")
		shared.read = func(context.Context, string) ([]string, error) { panic("an object like no other") }
		fails("a read that panics")
		s.fails, shared.read = nil, s.read
		if got := get(t, shared); !slices.Contains(got, "robot") {
			t.Errorf("after it failed: %v", got)
		}
		time.Sleep(2 * remembered)
	})
}

// Who does not wait any more takes it from nobody.
func TestAReadIsNobodysOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{has: []string{"robot"}}
		shared := New(timeout, remembered, s.read)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var others sync.WaitGroup
		others.Go(func() {
			if got := get(t, shared); !slices.Contains(got, "robot") {
				t.Errorf("%v", got)
			}
		})
		if _, err := shared.Get(short, "web"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		others.Wait()
		time.Sleep(2 * remembered)
	})
}
