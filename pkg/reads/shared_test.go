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

func with(name string) func([]string) bool {
	return func(names []string) bool { return slices.Contains(names, name) }
}

func TestThoseWhoAskTogetherShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{has: []string{"robot"}}
		shared := New(timeout, remembered, s.read)
		finds := func(name string) bool {
			t.Helper()
			names, err := shared.Get(t.Context(), "web", with(name))
			if err != nil {
				t.Error(err)
			}
			return with(name)(names)
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if !finds("robot") {
					t.Error("what is there is not found")
				}
				if finds("admin") {
					t.Error("what is not there is found")
				}
			})
		}
		all.Wait()
		if s.reads > 4 { // for the first who came, for all others; and the same again for what is not there
			t.Errorf("%d reads for 200 questions of 100 who ask at a time", s.reads)
		}

		s.reads = 0
		time.Sleep(remembered / 2)
		for range 100 {
			finds("robot")
		}
		if s.reads > 0 {
			t.Errorf("%d reads of what was found a moment ago", s.reads)
		}
		time.Sleep(remembered)
		if s.put(); finds("robot") {
			t.Error("what was there long ago is found")
		}
		time.Sleep(2 * remembered)
		if len(shared.known) > 0 {
			t.Errorf("%d keys are remembered for ever", len(shared.known))
		}
	})
}

func TestWhatIsWrittenBeforeTheQuestionIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		shared := New(timeout, remembered, s.read)
		go func() { _, _ = shared.Get(t.Context(), "web", with("robot")) }()
		time.Sleep(time.Millisecond) // its read has begun
		s.put("robot")
		if names, err := shared.Get(t.Context(), "web", with("robot")); !with("robot")(names) || err != nil {
			t.Errorf("%v, error %v", names, err)
		}
		time.Sleep(2 * remembered)
	})
}

func TestAReadThatFailsIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{has: []string{"robot"}, fails: errors.New("no quorum")}
		shared := New(timeout, remembered, s.read)
		if _, err := shared.Get(t.Context(), "web", with("robot")); err == nil {
			t.Error("no error")
		}
		s.fails = nil
		if names, err := shared.Get(t.Context(), "web", with("robot")); !with("robot")(names) || err != nil {
			t.Errorf("after it failed once: %v, error %v", names, err)
		}
		shared.read = func(context.Context, string) ([]string, error) { panic("an object like no other") }
		if _, err := shared.Get(t.Context(), "web", with("admin")); err == nil {
			t.Error("no error of a read that panics")
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
			time.Sleep(time.Microsecond)
			if names, err := shared.Get(t.Context(), "web", with("robot")); !with("robot")(names) || err != nil {
				t.Errorf("%v, error %v", names, err)
			}
		})
		if _, err := shared.Get(short, "web", with("robot")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		others.Wait()
		time.Sleep(2 * remembered)
	})
}
