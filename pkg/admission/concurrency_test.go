package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/kcp-dev/logicalcluster/v3"
)

func TestWhoAsksWithoutEndDelaysOthersByOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency()
		var order []logicalcluster.Name
		next := make(chan struct{})
		ask := func(c logicalcluster.Name) {
			go func() {
				release, err := l.acquire(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, c)
				<-next
				release()
			}()
			synctest.Wait()
		}
		for range 20 {
			ask("noisy")
		}
		ask("quiet")
		ask("silent")
		for range 22 {
			next <- struct{}{}
			synctest.Wait()
		}
		if len(order) != 22 || order[0] != "noisy" || order[1] != "quiet" || order[2] != "silent" {
			t.Errorf("the order was %v", order)
		}
		if len(l.of) != 0 || len(l.all) != 0 {
			t.Errorf("something is left: %v", l.of)
		}
	})
}

func TestWhoDoesNotWaitAnyMoreLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency()
		release, err := l.acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []logicalcluster.Name{"a", "b"} {
			go func() {
				if _, err := l.acquire(ctx, c); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", c, err)
				}
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		if len(l.of) != 0 || len(l.all) != 0 {
			t.Errorf("something is left: %v", l.of)
		}
	})
}
