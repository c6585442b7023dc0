package weighed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func newCache(most int64) *Cache[string, string] {
	return New[string](most, func(v string) int64 { return int64(len(v)) })
}

func put(t *testing.T, c *Cache[string, string], key, value string) (made bool) {
	t.Helper()
	got, err := c.Get(t.Context(), key, func() (string, error) { made = true; return value, nil })
	if err != nil || got != value {
		t.Fatalf("%s: got %q, %v", key, got, err)
	}
	return made
}

func TestWhatWasUsedLeastRecentlyGoesFirst(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	put(t, c, "a", "aaaa")
	put(t, c, "b", "bbbb")
	put(t, c, "a", "aaaa")
	put(t, c, "c", "cccc")
	if put(t, c, "a", "aaaa") {
		t.Error("what was used last is gone")
	}
	if !put(t, c, "b", "bbbb") {
		t.Error("what was used least recently is still there")
	}
	if count, weight := c.Size(); count != 2 || weight != 8 {
		t.Errorf("%d values of %d bytes are kept", count, weight)
	}
}

func TestWhatIsTooHeavyIsHandedOutAndTakesNothingElseAlong(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	put(t, c, "a", "aaaa")
	put(t, c, "heavy", "xxxxxxxxxxxxxxx")
	if put(t, c, "a", "aaaa") {
		t.Error("a was dropped for what is not kept")
	}
	if !put(t, c, "heavy", "xxxxxxxxxxxxxxx") {
		t.Error("it is kept")
	}
}

func TestWhatSeveralAskForIsMadeOnce(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	var made atomic.Int32
	begun, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = c.Get(t.Context(), "a", func() (string, error) { close(begun); <-release; made.Add(1); return "a", nil })
	})
	<-begun
	for range 8 {
		all.Go(func() {
			if got, err := c.Get(t.Context(), "a", func() (string, error) { made.Add(1); return "a", nil }); got != "a" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(gone, "a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who goes gets %v", err)
	}
	close(release)
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("it was made %d times", made.Load())
	}
}

func TestAFailureIsNotKeptAndNotHandedToOthers(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	begun, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := c.Get(t.Context(), "a", func() (string, error) { close(begun); <-release; return "", errors.New("no") }); err == nil {
			t.Error("the failure is lost")
		}
	})
	<-begun
	all.Go(func() {
		if got, err := c.Get(t.Context(), "a", func() (string, error) { return "a", nil }); got != "a" || err != nil {
			t.Errorf("who waited gets %q, %v", got, err)
		}
	})
	close(release)
	all.Wait()
}

func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get(t.Context(), "a", func() (string, error) { panic("no") })
	}()
	if !put(t, c, "a", "a") {
		t.Error("something was kept of a panic")
	}
}

func TestWhatIsRemovedWhileItIsMadeIsNotKept(t *testing.T) {
	t.Parallel()
	c := newCache(10)
	_, _ = c.Get(t.Context(), "a", func() (string, error) { c.Remove("a"); return "old", nil })
	if !put(t, c, "a", "new") {
		t.Error("what was removed is kept")
	}
	c.Remove("a")
	if count, weight := c.Size(); count != 0 || weight != 0 {
		t.Errorf("%d values of %d bytes are left", count, weight)
	}
}

func TestTheWeightIsBoundedAndExactUnderRace(t *testing.T) {
	t.Parallel()
	const most = 100
	c := newCache(most)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for range 2000 {
				key := fmt.Sprint(random.IntN(40))
				if random.IntN(5) == 0 {
					c.Remove(key)
					continue
				}
				size := 1 + (len(key)*17+int(key[0]))%30
				if got, err := c.Get(t.Context(), key, func() (string, error) { return string(make([]byte, size)), nil }); err != nil || len(got) != size {
					t.Errorf("%s: %d bytes, %v", key, len(got), err)
				}
				if _, weight := c.Size(); weight > most {
					t.Errorf("%d bytes are kept", weight)
				}
			}
		})
	}
	all.Wait()
	sum := int64(0)
	for _, e := range c.entries {
		sum += e.weight
	}
	if count, weight := c.Size(); weight != sum || count != len(c.entries) {
		t.Errorf("%d values of %d bytes, counted as %d of %d", len(c.entries), sum, count, weight)
	}
}
