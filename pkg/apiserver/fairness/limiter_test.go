package fairness

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func ownRequest(req *http.Request) bool { return req.RemoteAddr == "the server" }

func testLimiter(most, longest int) *Limiter {
	return &Limiter{most: most, longest: longest, entrance: newEntrance(ownRequest), processors: newProcessors(), bodies: newBodies(defaultBodyBounds, clock.RealClock{}), throttle: newThrottle(clock.RealClock{}), queues: map[string]*queue{}, calls: map[calls]int{}, asked: func(_ context.Context, c logicalcluster.Name) int64 {
		return map[logicalcluster.Name]int64{"asks-for-two": 2, "unlimited": -1}[c]
	}}
}

// request is the context in which Handle sees a request.
func asked(t *testing.T, slots *Limiter, cluster string, bound bool, headers ...string) context.Context {
	t.Helper()
	var ctx context.Context
	req := httptest.NewRequestWithContext(scope.WithCluster(t.Context(), "x"), http.MethodGet, "/api", nil)
	req = req.WithContext(scope.With(req.Context(), scope.Scope{Cluster: scope.Root}))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	slots.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), req)
	if bound {
		auth.MarkBound(ctx)
	}
	return scope.WithCluster(ctx, clusterNamed(cluster))
}

func clusterNamed(name string) logicalcluster.Name { return logicalcluster.Name(name) }

func TestWithWhomARequestSharesSlots(t *testing.T) {
	t.Parallel()
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
	admin := &user.DefaultInfo{Name: "ann", Groups: []string{user.SystemPrivilegedGroup}}
	syncer := &user.DefaultInfo{Name: "system:atoll:syncer:east", Groups: []string{auth.SyncersGroup}}
	for name, c := range map[string]struct {
		bound, borrowed bool
		u               user.Info
		want            string
	}{
		"an admin":                          {false, false, admin, ""},
		"an admin with other credentials":   {true, false, admin, ""},
		"a syncer":                          {false, false, syncer, ""},
		"credentials of a logical cluster":  {true, false, ann, "shop"},
		"the same, impersonating":           {true, true, ann, "shop"},
		"an identity provider's":            {false, false, ann, "shop ann"},
		"an identity provider's, as others": {false, true, ann, "shop impersonated"},
	} {
		if got, needed := queueOf(c.bound, c.borrowed, "shop", c.u); got != c.want || needed != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, needed, c.want)
		}
	}
}

func TestNoMoreThanItsSlotsAreServedForALogicalCluster(t *testing.T) {
	t.Parallel()
	const most, requests = 3, 200
	slots := testLimiter(most, requests)
	var now, peak atomic.Int32
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			end, ok := begin(asked(t, slots, "noisy", true), &user.DefaultInfo{Name: "ann"})
			if !ok {
				t.Error("refused")
				return
			}
			defer end()
			if n := now.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			time.Sleep(time.Millisecond)
			now.Add(-1)
		})
	}
	all.Wait()
	if peak.Load() > most || peak.Load() < 2 {
		t.Errorf("%d were served at a time, want at most %d", peak.Load(), most)
	}
	if len(slots.queues) != 0 {
		t.Errorf("%d queues are left", len(slots.queues))
	}
}

func TestOthersDoNotWaitForALongLine(t *testing.T) {
	t.Parallel()
	slots := testLimiter(1, 2)
	ann := &user.DefaultInfo{Name: "ann"}
	end, _ := begin(asked(t, slots, "noisy", true), ann)
	gone, leave := context.WithCancel(asked(t, slots, "noisy", true))
	answers := make(chan bool)
	for _, ctx := range []context.Context{gone, asked(t, slots, "noisy", true)} {
		go func() {
			end, ok := begin(ctx, ann)
			if ok {
				end()
			}
			answers <- ok
		}()
	}
	for waiting := 0; waiting < 2; time.Sleep(time.Millisecond) {
		slots.mu.Lock()
		waiting = slots.queues["noisy"].waiting.Len()
		slots.mu.Unlock()
	}
	if _, ok := begin(asked(t, slots, "noisy", true), ann); ok {
		t.Error("a third one waits")
	}
	if end, ok := begin(asked(t, slots, "quiet", true), ann); !ok {
		t.Error("another logical cluster is refused")
	} else {
		end()
	}
	leave()
	if <-answers {
		t.Error("who went suspended got a slot")
	}
	end()
	if !<-answers {
		t.Error("who waited got none")
	}
	if len(slots.queues) != 0 {
		t.Errorf("%d queues are left", len(slots.queues))
	}
}

// A webhook may ask the logical cluster whose request it is asked about.
func TestWhoWaitsForAWebhookHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	slots := testLimiter(1, 10)
	ann := &user.DefaultInfo{Name: "ann"}
	outer := asked(t, slots, "shop", true)
	end, _ := begin(outer, ann)
	back, alsoBack := Suspend(outer), Suspend(outer)
	inner, ok := begin(asked(t, slots, "shop", true), ann)
	if !ok {
		t.Fatal("refused")
	}
	back()
	alsoBack()
	if taken := slots.queues["shop"].taken; taken != 2 {
		t.Errorf("%d slots are taken, want that of the webhook and the one taken back", taken)
	}
	inner()
	waits := make(chan bool)
	go func() {
		end, ok := begin(asked(t, slots, "shop", true), ann)
		if ok {
			end()
		}
		waits <- ok
	}()
	select {
	case <-waits:
		t.Error("a slot was given although one is taken")
	case <-time.After(20 * time.Millisecond):
	}
	end()
	if !<-waits {
		t.Error("refused")
	}
	if len(slots.queues) != 0 {
		t.Errorf("%s is left", fmt.Sprint(slots.queues))
	}
}

func TestARequestThatEndsWhileItIsSuspendedGivesNothingTwice(t *testing.T) {
	t.Parallel()
	slots := testLimiter(1, 10)
	ctx := asked(t, slots, "shop", true)
	end, _ := begin(ctx, &user.DefaultInfo{Name: "ann"})
	back := Suspend(ctx)
	end()
	back()
	if len(slots.queues) != 0 {
		t.Errorf("%s is left", fmt.Sprint(slots.queues))
	}
}

func TestAnAdminSaysHowManySlotsThereAreAndTheAnswerHowMany(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]int{"any": 5, "asks-for-two": 2, "unlimited": 50} {
		slots, ann := testLimiter(5, 0), &user.DefaultInfo{Name: "ann"}
		served := 0
		for range 50 {
			ctx := asked(t, slots, cluster, true)
			_, ok := begin(ctx, ann)
			refused := 0
			Refusing(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(_ http.ResponseWriter, c logicalcluster.Name, most int) {
				if refused = most; c.String() != cluster {
					t.Errorf("the refusal names %s", c)
				}
			}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/api", nil))
			switch {
			case ok && refused == 0:
				served++
			case ok || refused != want:
				t.Fatalf("%s: got a slot: %v, refused because of %d", cluster, ok, refused)
			}
		}
		if served != want {
			t.Errorf("%s: %d are served at a time, want %d", cluster, served, want)
		}
	}
}
