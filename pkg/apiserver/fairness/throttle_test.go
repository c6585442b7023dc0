package fairness

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	testclock "k8s.io/utils/clock/testing"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestHowLongWhoAsksInVainIsDelayed(t *testing.T) {
	t.Parallel()
	now := testclock.NewFakeClock(time.Unix(1e9, 0))
	throttle := newThrottle(now)
	for _, c := range []struct {
		vain  int
		after time.Duration
		want  time.Duration
	}{
		{vain: 0, want: 0},
		{vain: vainBurst, want: 0},
		{vain: 1, want: time.Second / vainPerSecond},
		{vain: 9, want: 10 * time.Second / vainPerSecond},
		{vain: 10_000, want: mostDelay},
		{after: time.Second, want: mostDelay - time.Second},
		{after: time.Second, want: 0},
		{vain: 1, want: time.Second / vainPerSecond},
		{after: time.Minute, vain: vainBurst, want: 0},
	} {
		now.Step(c.after)
		for range c.vain {
			throttle.inVain("noisy")
		}
		// A request that is delayed for a moment longer or shorter is none the worse.
		if got := throttle.delay("noisy"); (got - c.want).Abs() > time.Millisecond {
			t.Errorf("%d in vain, %s later: %s, want %s", c.vain, c.after, got, c.want)
		}
		if got := throttle.delay("quiet"); got != 0 {
			t.Errorf("somebody else is delayed by %s", got)
		}
	}
}

func TestMadeUpNamesAreForgotten(t *testing.T) {
	t.Parallel()
	now := testclock.NewFakeClock(time.Unix(1e9, 0))
	throttle := newThrottle(now)
	for i := range 3 * mostThrottled {
		throttle.inVain(fmt.Sprint("made up ", i))
	}
	if n := len(throttle.spent); n != mostThrottled {
		t.Errorf("%d are known, want %d", n, mostThrottled)
	}
	now.Step(time.Minute)
	throttle.inVain("another")
	if n := len(throttle.spent); n != 1 {
		t.Errorf("%d are known a minute later, want one", n)
	}
}

func TestWhatIsInVain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code    int
		watches bool
		left    error
		want    bool
	}{
		{http.StatusOK, false, nil, false},
		{http.StatusNotFound, false, nil, false},
		{http.StatusForbidden, false, nil, false},
		{http.StatusTooManyRequests, false, nil, true},
		{http.StatusRequestTimeout, false, nil, true},
		{http.StatusRequestEntityTooLarge, false, nil, true},
		{0, false, context.Canceled, true},
		{http.StatusOK, false, fmt.Errorf("%w: gone", context.Canceled), true},
		{http.StatusOK, false, context.DeadlineExceeded, false}, // the server took too long
		{http.StatusOK, true, context.Canceled, false},
	} {
		if got := isInVain(c.code, c.watches, c.left); got != c.want {
			t.Errorf("%d, watches %v, %v: %v, want %v", c.code, c.watches, c.left, got, c.want)
		}
	}
}

func inCluster(t *testing.T, name string) context.Context {
	t.Helper()
	return scope.WithCluster(t.Context(), clusterNamed(name))
}

// answering has a request served, and returns how long it waited for its slot, or -1 if it got none.
func (t *Limiter) answering(tt *testing.T, ctx context.Context, u user.Info, serve func(context.Context, http.ResponseWriter)) time.Duration {
	tt.Helper()
	began, waited := time.Now(), time.Duration(-1)
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api", nil)
	t.With(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, ok := begin(r.Context(), u)
		if !ok {
			return
		}
		defer end()
		waited = time.Since(began)
		serve(r.Context(), w)
	})).ServeHTTP(httptest.NewRecorder(), req)
	return waited
}

func TestWhoAsksInVainWaitsAndHoldsNothing(t *testing.T) {
	t.Parallel()
	refuse := func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }
	answer := func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }
	call := func(ctx context.Context, w http.ResponseWriter) {
		var backs []func()
		for {
			back, err := Call(ctx)
			if err != nil {
				break
			}
			backs = append(backs, back)
		}
		for _, back := range backs {
			back()
		}
		w.WriteHeader(http.StatusInternalServerError)
	}
	ann := &user.DefaultInfo{Name: "ann"}
	admin := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	for name, waste := range map[string]func(*testing.T, *Limiter, context.Context){
		"requests that are refused": func(t *testing.T, l *Limiter, ctx context.Context) { l.answering(t, ctx, ann, refuse) },
		"requests that are given up": func(t *testing.T, l *Limiter, ctx context.Context) {
			gone, leave := context.WithCancel(ctx)
			l.answering(t, gone, ann, func(context.Context, http.ResponseWriter) { leave() })
			leave()
		},
		"calls of webhooks that are refused": func(t *testing.T, l *Limiter, ctx context.Context) { l.answering(t, ctx, ann, call) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testLimiter(1, 10)
				noisy := inCluster(t, "noisy")
				for range vainBurst {
					waste(t, l, noisy)
				}
				if d := l.answering(t, noisy, ann, answer); d != 0 {
					t.Errorf("within the burst a request is delayed by %s", d)
				}
				for range 20 {
					waste(t, l, noisy)
				}
				if d := l.answering(t, noisy, ann, answer); d <= 0 || d > mostDelay {
					t.Errorf("a request waits %s, want up to %s", d, mostDelay)
				}
				// While one waits there is its slot for another, as soon as it may go on.
				if d := l.answering(t, inCluster(t, "quiet"), ann, answer); d != 0 {
					t.Errorf("another logical cluster is delayed by %s", d)
				}
				if d := l.answering(t, noisy, admin, answer); d != 0 {
					t.Errorf("an admin is delayed by %s", d)
				}
				if len(l.queues) != 0 {
					t.Errorf("%d queues are left", len(l.queues))
				}
			})
		})
	}
}

func TestWhoLeavesWhileDelayedGetsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLimiter(1, 10)
		for range 10 * vainBurst {
			l.throttle.inVain("noisy ann")
		}
		ctx, leave := context.WithCancel(inCluster(t, "noisy"))
		defer leave()
		time.AfterFunc(mostDelay/4, leave)
		began := time.Now()
		if d := l.answering(t, ctx, &user.DefaultInfo{Name: "ann"}, func(context.Context, http.ResponseWriter) { t.Error("it is served") }); d != -1 {
			t.Errorf("it got a slot after %s", d)
		}
		if d := time.Since(began); d != mostDelay/4 {
			t.Errorf("it waited %s, and left after %s", d, mostDelay/4)
		}
	})
}
