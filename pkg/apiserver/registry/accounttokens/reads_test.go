package accounttokens

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// namespace is what a test has stored in one, and how long it takes to read it.
type namespace struct {
	mu    sync.Mutex
	has   []string
	fails error
	reads int
}

func (n *namespace) put(accounts ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.has = accounts
}

func (n *namespace) read(context.Context, place) (mounted, error) {
	n.mu.Lock()
	n.reads++
	m := newMounted()
	for _, account := range n.has {
		m.automounting[use{account: account}] = 600
	}
	err := n.fails
	n.mu.Unlock()
	time.Sleep(time.Second) // what is written from now on is not in it
	return m, err
}

func has(account string) func(mounted) bool {
	return func(m mounted) bool { return m.automounting[use{account: account}] > 0 }
}

var web = place{"shop", "web", "east"}

// Thousands of tokens of one namespace that are renewed together cost few reads of it.
func TestThoseWhoAskTogetherShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &namespace{has: []string{"robot"}}
		r := &reads{read: n.read, known: map[place]*known{}}
		ask := func(account string) bool {
			t.Helper()
			ok, err := r.permitted(t.Context(), web, has(account))
			if err != nil {
				t.Error(err)
			}
			return ok
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if !ask("robot") {
					t.Error("what is mounted is refused")
				}
				if ask("admin") {
					t.Error("what nothing mounts is permitted")
				}
			})
		}
		all.Wait()
		if n.reads > 4 { // the first who came, all others; and the same again of what is refused
			t.Errorf("%d reads for 200 requests of 100 who ask at a time", n.reads)
		}

		n.reads = 0
		time.Sleep(remembered / 2)
		for range 100 {
			ask("robot")
		}
		if n.reads > 0 {
			t.Errorf("%d reads of what was found a moment ago", n.reads)
		}
		time.Sleep(remembered)
		if n.put(); ask("robot") {
			t.Error("what was mounted long ago is permitted")
		}
		time.Sleep(2 * remembered)
		if len(r.known) > 0 {
			t.Errorf("%d places are remembered for ever", len(r.known))
		}
	})
}

// What a user has written is known to who asks after that: a read that began before does not count.
func TestWhatIsWrittenBeforeTheRequestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &namespace{}
		r := &reads{read: n.read, known: map[place]*known{}}
		go func() { _, _ = r.permitted(t.Context(), web, has("robot")) }()
		time.Sleep(time.Millisecond) // its read has begun
		n.put("robot")
		if ok, err := r.permitted(t.Context(), web, has("robot")); !ok || err != nil {
			t.Errorf("permitted: %v, error %v", ok, err)
		}
	})
}

func TestAReadThatFailsPermitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &namespace{has: []string{"robot"}, fails: errors.New("no quorum")}
		r := &reads{read: n.read, known: map[place]*known{}}
		if ok, err := r.permitted(t.Context(), web, has("robot")); ok || err == nil {
			t.Errorf("permitted: %v, error %v", ok, err)
		}
		n.fails = nil
		if ok, err := r.permitted(t.Context(), web, has("robot")); !ok || err != nil {
			t.Errorf("after it failed once: permitted %v, error %v", ok, err)
		}
		r.read = func(context.Context, place) (mounted, error) { panic("an object like no other") }
		if ok, err := r.permitted(t.Context(), web, has("admin")); ok || err == nil {
			t.Errorf("of a read that panics: permitted %v, error %v", ok, err)
		}
		r.read = n.read
		// Who does not wait any more takes it from nobody.
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var others sync.WaitGroup
		others.Go(func() {
			if ok, err := r.permitted(t.Context(), web, has("admin")); ok || err != nil {
				t.Errorf("beside one that left: permitted %v, error %v", ok, err)
			}
		})
		if _, err := r.permitted(short, web, has("admin")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		others.Wait()
		time.Sleep(2 * remembered)
	})
}
