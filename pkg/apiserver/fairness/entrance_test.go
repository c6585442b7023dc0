package fairness

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func testEntrance(free int, timeout time.Duration) *entrance {
	e := newEntrance(ownRequest)
	e.free, e.share, e.timeout = free, max(1, free-1), timeout
	return e
}

// lineUp has somebody wait for a place, and returns when he does.
func (e *entrance) lineUp(t *testing.T, all *sync.WaitGroup, c logicalcluster.Name, entered func(leave func())) {
	t.Helper()
	waiting := func() (n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for at := e.flows.Front(); at != nil; at = at.Next() {
			n += at.Value.(*flow).waiting.Len()
		}
		return n
	}
	before := waiting()
	all.Go(func() { entered(e.enter(t.Context(), flowKey{cluster: c})) })
	for deadline := time.Now().Add(time.Minute); waiting() == before; {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not wait", c)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestLogicalClustersEnterOneAfterTheOther(t *testing.T) {
	t.Parallel()
	e := testEntrance(1, time.Hour)
	first := e.enter(t.Context(), flowKey{cluster: "noisy"})
	var all sync.WaitGroup
	var order []logicalcluster.Name // one at a time is in
	for _, c := range []logicalcluster.Name{"noisy", "noisy", "noisy", "quiet", "other", "quiet"} {
		e.lineUp(t, &all, c, func(leave func()) {
			order = append(order, c)
			leave()
		})
	}
	first()
	all.Wait()
	if want := []logicalcluster.Name{"noisy", "quiet", "other", "noisy", "quiet", "noisy"}; !slices.Equal(order, want) {
		t.Errorf("they enter as %v, want %v", order, want)
	}
	if e.free != 1 || len(e.waiting) != 0 || e.flows.Len() != 0 {
		t.Errorf("%d places, %d and %d flows are left", e.free, len(e.waiting), e.flows.Len())
	}
}

// Of several places one logical cluster leaves one to others, also when one of its own comes free.
func TestALogicalClusterLeavesAPlaceAtTheEntrance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := testEntrance(3, time.Hour)
		first, second := e.enter(t.Context(), flowKey{cluster: "noisy"}), e.enter(t.Context(), flowKey{cluster: "noisy"})
		var all sync.WaitGroup
		var inside atomic.Int32
		hold := make(chan struct{})
		for range 3 {
			all.Go(func() {
				leave := e.enter(t.Context(), flowKey{cluster: "noisy"})
				inside.Add(1)
				<-hold
				leave()
			})
		}
		for range 2 { // others come in at once, and it gets none of the places that they leave
			began := time.Now()
			e.enter(t.Context(), flowKey{cluster: "quiet"})()
			if time.Since(began) != 0 {
				t.Errorf("another logical cluster waits for %s", time.Since(began))
			}
			if synctest.Wait(); inside.Load() != 0 {
				t.Errorf("%d more of the first are inside", inside.Load())
			}
		}
		first()
		if synctest.Wait(); inside.Load() != 1 {
			t.Errorf("%d of the first follow one that left, want 1", inside.Load())
		}
		quiet := e.enter(t.Context(), flowKey{cluster: "quiet"})
		second()
		if synctest.Wait(); inside.Load() != 2 {
			t.Errorf("%d of the first are inside, want 2", inside.Load())
		}
		close(hold)
		quiet()
		all.Wait()
		if e.free != 3 || len(e.waiting) != 0 || len(e.inside) != 0 || e.flows.Len() != 0 {
			t.Errorf("%d places, %d inside, %d and %d flows are left", e.free, len(e.inside), len(e.waiting), e.flows.Len())
		}
	})
}

func TestNobodyIsKeptAtTheEntrance(t *testing.T) {
	t.Parallel()
	e := testEntrance(1, 10*time.Millisecond)
	first := e.enter(t.Context(), flowKey{cluster: "a"})
	e.enter(t.Context(), flowKey{cluster: "b"})() // goes on beside it, and gives back what it does not have
	e.timeout = time.Hour
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	e.enter(gone, flowKey{cluster: "c"})()
	if e.free != 0 || e.flows.Len() != 0 {
		t.Errorf("%d places are free, %d logical clusters wait", e.free, e.flows.Len())
	}
	first()
	if e.free != 1 {
		t.Errorf("%d places are free at the end", e.free)
	}
}

func TestPlacesAtTheEntranceAreNeitherLostNorMade(t *testing.T) {
	t.Parallel()
	const places = 3
	e := testEntrance(places, 200*time.Microsecond)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 500 {
				leave := e.enter(t.Context(), flowKey{cluster: clusterNamed(string(rune('a' + i%3)))})
				time.Sleep(50 * time.Microsecond)
				leave()
			}
		})
	}
	all.Wait()
	if e.free != places || len(e.waiting) != 0 || e.flows.Len() != 0 {
		t.Errorf("%d places, %d and %d flows are left", e.free, len(e.waiting), e.flows.Len())
	}
}

// A request is at the entrance until it gets a slot, is refused before that, or waits for somebody
// else. The server's own, and those of no logical cluster, pass by.
func TestUntilWhenARequestIsAtTheEntrance(t *testing.T) {
	t.Parallel()
	slots := testLimiter(1, 10)
	slots.entrance = testEntrance(1, time.Hour)
	free := func() int {
		slots.entrance.mu.Lock()
		defer slots.entrance.mu.Unlock()
		return slots.entrance.free
	}
	for name, c := range map[string]struct {
		cluster, from string
		inside        func(ctx context.Context)
		at, after     int // places that are free when it is in, and after inside
	}{
		"it gets a slot":     {"shop", "192.0.2.1:4000", func(ctx context.Context) { begin(ctx, &user.DefaultInfo{Name: "ann"}) }, 0, 1},
		"it needs no slot":   {"shop", "192.0.2.1:4000", func(ctx context.Context) { begin(ctx, &user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup}}) }, 0, 1},
		"it is refused":      {"shop", "192.0.2.1:4000", func(context.Context) {}, 0, 0},
		"it waits":           {"shop", "192.0.2.1:4000", Entered, 0, 1},
		"it is open long":    {"shop", "192.0.2.1:4000", refusing, 0, 1},
		"the server's own":   {"shop", "the server", func(context.Context) {}, 1, 1},
		"no logical cluster": {"", "192.0.2.1:4000", func(context.Context) {}, 1, 1},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
		req.RemoteAddr = c.from
		if c.cluster != "" {
			req = req.WithContext(scope.WithCluster(req.Context(), clusterNamed(c.cluster)))
		}
		slots.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := free(); got != c.at {
				t.Errorf("%s: %d places are free, want %d", name, got, c.at)
			}
			c.inside(r.Context())
			if got := free(); got != c.after {
				t.Errorf("%s: %d places are free then, want %d", name, got, c.after)
			}
			if s := r.Context().Value(slotKey{}).(*slot); s.who != "" {
				s.end(nil)
			}
		})).ServeHTTP(httptest.NewRecorder(), req)
		if got := free(); got != 1 {
			t.Errorf("%s: %d places are free at the end", name, got)
		}
	}
}

// refusing is what a request meets that takes no slot.
func refusing(ctx context.Context) {
	var served atomic.Bool
	h := Refusing(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Store(true) }), nil)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/api", nil))
	if !served.Load() {
		panic("it is refused")
	}
}

func TestNothingIsDoneForWhoHasLeftAtTheEntrance(t *testing.T) {
	t.Parallel()
	slots := testLimiter(1, 1)
	serve := func(ctx context.Context) (served bool, aborted any) {
		defer func() { aborted = recover() }()
		req := httptest.NewRequestWithContext(scope.WithCluster(ctx, "x"), http.MethodGet, "/api", nil)
		slots.With(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(httptest.NewRecorder(), req)
		return served, nil
	}
	if served, aborted := serve(t.Context()); !served || aborted != nil {
		t.Errorf("who waits is served: %v, aborted with %v", served, aborted)
	}
	free := slots.entrance.free
	gone, leave := context.WithCancel(t.Context())
	leave()
	served, aborted := serve(gone)
	if err, _ := aborted.(error); served || !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("who has left is served: %v, aborted with %v", served, aborted)
	}
	if slots.entrance.free != free {
		t.Errorf("%d places are free, want %d", slots.entrance.free, free)
	}
}

// What is parsed long leaves a place at the entrance to others, and is refused when none comes free.
func TestLongURIsLeavePlacesAtTheEntranceToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := testLimiter(1, 10)
		slots.entrance = testEntrance(2, time.Hour)
		slots.entrance.long = weighed.NewRoom(1, 1)
		inside := make(chan struct{})
		serve := func(ctx context.Context, query string, inside <-chan struct{}) (code int, aborted any) {
			defer func() { aborted = recover() }()
			w := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(scope.WithCluster(ctx, "x"), http.MethodGet, "/api?labelSelector="+query, nil)
			slots.With(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-inside })).ServeHTTP(w, req)
			return w.Code, nil
		}
		long, open := strings.Repeat("a", costlyURI), make(chan struct{})
		close(open)
		var all sync.WaitGroup
		all.Go(func() { serve(t.Context(), long, inside) })
		synctest.Wait()
		leaving, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if code, aborted := serve(leaving, long, open); aborted != http.ErrAbortHandler { //nolint:errorlint // a panic is no error
				t.Errorf("who has left is answered %d, %v", code, aborted)
			}
		})
		synctest.Wait()
		leave()
		began := time.Now()
		if code, _ := serve(t.Context(), "a", open); code != http.StatusOK || time.Since(began) != 0 {
			t.Errorf("a short one beside it: %d after %s", code, time.Since(began))
		}
		if code, _ := serve(t.Context(), long, open); code != http.StatusTooManyRequests || time.Since(began) == 0 {
			t.Errorf("a long one beside it: %d after %s", code, time.Since(began))
		}
		close(inside)
		all.Wait()
		if code, _ := serve(t.Context(), long, open); code != http.StatusOK {
			t.Errorf("a long one afterwards: %d", code)
		}
		if slots.entrance.free != 2 {
			t.Errorf("%d places are free at the end", slots.entrance.free)
		}
	})
}
