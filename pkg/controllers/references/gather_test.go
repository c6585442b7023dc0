package references

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever asks gets what was read after that, and all who asked meanwhile share one read.
func TestWhoAsksWhileOneReadsSharesTheNextRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		g := newGather(func(context.Context, namespace) ([]*holder, error) {
			n := reads.Add(1)
			time.Sleep(time.Second)
			h := &holder{}
			h.Generation = int64(n)
			return []*holder{h}, nil
		})
		web := namespace{"shop", "web"}
		got := make(chan int64, 100)
		ask := func(ctx context.Context, of namespace) {
			all, err := g.get(ctx, of)
			if err != nil {
				got <- -1
				return
			}
			got <- all[0].Generation
		}
		first, cancel := context.WithCancel(t.Context())
		go ask(first, web)
		time.Sleep(time.Millisecond)
		for range 50 {
			go ask(t.Context(), web)
		}
		cancel() // who began the read waits no more; the others do
		if n := <-got; n != -1 {
			t.Errorf("it has read %d and was cancelled", n)
		}
		for range 50 {
			if n := <-got; n != 2 {
				t.Fatalf("what was read %d., which began before it was asked for, or a read too many", n)
			}
		}
		go ask(t.Context(), web)
		go ask(t.Context(), namespace{"mallory", "web"})
		if a, b := <-got, <-got; a+b != 3+4 {
			t.Errorf("read %d. and %d., want one read for each namespace", a, b)
		}
		synctest.Wait()
		if len(g.under) != 0 || len(g.next) != 0 {
			t.Errorf("%v and %v are kept", g.under, g.next)
		}
	})
}

func TestAReadThatFailsFailsForThoseWhoWaitedForIt(t *testing.T) {
	failure := errors.New("down")
	fails := true
	g := newGather(func(context.Context, namespace) ([]*holder, error) {
		if fails {
			return nil, failure
		}
		return nil, nil
	})
	if _, err := g.get(t.Context(), namespace{"shop", "web"}); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	fails = false
	if _, err := g.get(t.Context(), namespace{"shop", "web"}); err != nil {
		t.Errorf("got %v", err)
	}
}
