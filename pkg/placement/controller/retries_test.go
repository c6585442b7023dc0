package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// However often something is reported, a tenant whose units fit nowhere has some of them tried, and others do not wait for these.
func TestUnitsThatFitNowhereAreTriedInTheirPace(t *testing.T) {
	t.Parallel()
	const units = 10_000
	now, r := time.Unix(1_000_000, 0), newRetries()
	of := func(cluster string, i int) controller.Request {
		return controller.Request{Cluster: logicalcluster.Name(cluster), Namespace: fmt.Sprint(i), Name: "namespace"}
	}
	due := map[controller.Request]time.Time{}
	tried := 0
	for range 100 { // reports, one each 100 ms
		for i := range units {
			key := of("mallory", i)
			if at, ok := due[key]; ok && !now.Before(at) {
				if left := r.left(key, now); left > 0 {
					t.Fatalf("it is not tried when it is due, but %s later", left)
				}
				tried++
				delete(due, key)
			}
			if delay, ok := r.after(key, now); ok {
				due[key] = now.Add(delay)
			}
		}
		now = now.Add(retryEach)
	}
	if most := retriesAtOnce + 100; tried < 100 || tried > most {
		t.Errorf("%d were tried in ten seconds, at most %d may be", tried, most)
	}
	if delay, ok := r.after(of("shop", 0), now); !ok || delay != 0 {
		t.Errorf("a unit of another logical cluster waits for %s", delay)
	}
	if got, want := withoutNews(units), units*retryEach; got != want {
		t.Errorf("without news one is tried again after %s, want %s", got, want)
	}
	if got := withoutNews(1); got != retryInterval {
		t.Errorf("without news the only one is tried again after %s", got)
	}
}

// A unit that waits to be tried waits once; what is tried no more is forgotten.
func TestWhatIsTriedIsRememberedAsLongAsItCounts(t *testing.T) {
	t.Parallel()
	now, r, key := time.Unix(1_000_000, 0), newRetries(), web
	if _, ok := r.after(key, now); !ok {
		t.Fatal("it does not wait")
	}
	if _, ok := r.after(key, now); ok {
		t.Error("it waits twice")
	}
	r.drop(key)
	if left := r.left(key, now); left > 0 {
		t.Errorf("it is tried only after %s", left)
	}
	if _, ok := r.after(key, now); !ok {
		t.Error("it is not tried again")
	}
	r.drop(key)
	r.forget(now)
	if len(r.of) != 1 {
		t.Error("that two were tried just now is forgotten")
	}
	r.forget(now.Add(time.Minute))
	if len(r.of) > 0 {
		t.Errorf("%v is remembered", r.of)
	}
}

// Who takes back what fits nowhere does not wait for it.
func TestNothingWaitsForUnitsThatAreGone(t *testing.T) {
	t.Parallel()
	now, r := time.Unix(1_000_000, 0), newRetries()
	for i := range 10_000 {
		r.after(controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)}, now)
	}
	for i := range 10_000 {
		r.drop(controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)})
	}
	if delay, _ := r.after(web, now); delay > retryEach {
		t.Errorf("it waits for %s", delay)
	}
}

// What can be placed does not wait for its pace: a thousand units that have room at last are placed one after the other.
func TestUnitsThatArePlacedHaveTheNextTried(t *testing.T) {
	t.Parallel()
	const units = 1000
	now, r := time.Unix(1_000_000, 0), newRetries()
	var due []controller.Request
	for i := range units {
		key := controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)}
		if delay, _ := r.after(key, now); delay == 0 {
			due = append(due, key)
		}
	}
	if len(due) != retriesAtOnce {
		t.Errorf("%d are tried at once", len(due))
	}
	placed := 0
	for ; len(due) > 0; placed++ {
		if left := r.left(due[0], now); left > 0 {
			t.Fatalf("%s waits for %s", due[0], left)
		}
		due = due[1:]
		if next, ok := r.placed("shop", now); ok {
			due = append(due, next)
		}
	}
	if placed != units {
		t.Errorf("%d of %d were placed without a wait", placed, units)
	}
	if _, ok := r.placed("other", now); ok {
		t.Error("a unit of another logical cluster is tried")
	}
}

// An edit of a policy has all undecided units looked at, which tries no more of them than a report does.
func TestLooksTryNoMoreThanReports(t *testing.T) {
	t.Parallel()
	now, r := time.Unix(1_000_000, 0), newRetries()
	tried := 0
	for range 10 { // edits
		for i := range 10_000 {
			if r.left(controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)}, now) == 0 {
				tried++
			}
		}
		now = now.Add(retryEach)
	}
	if most := retriesAtOnce + 10; tried < retriesAtOnce || tried > most {
		t.Errorf("%d were tried within a second, at most %d may be", tried, most)
	}
}
