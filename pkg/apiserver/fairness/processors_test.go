package fairness

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/scope"
)

var ann = &user.DefaultInfo{Name: "ann"}

// computing has a processor for each of two logical clusters.
func computing() *Limiter {
	l := testLimiter(10, 10)
	l.processors = weighed.NewRoom(2, 1)
	return l
}

// serve has a request of a logical cluster served, which has a slot if u needs one.
func (t *Limiter) serve(tt *testing.T, w http.ResponseWriter, cluster string, u user.Info, content string, f func(http.ResponseWriter, *http.Request)) {
	tt.Helper()
	req := httptest.NewRequestWithContext(tt.Context(), http.MethodPost, "/api", strings.NewReader(content))
	req = req.WithContext(scope.WithCluster(req.Context(), clusterNamed(cluster)))
	t.With(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, ok := begin(r.Context(), u)
		if !ok {
			tt.Error("refused")
			return
		}
		defer end()
		f(w, r)
	})).ServeHTTP(w, req)
}

// busy says that a logical cluster has no processor left.
func (t *Limiter) busy(cluster string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	release, err := t.processors.Take(ctx, clusterNamed(cluster), 1)
	if err != nil {
		return true
	}
	release()
	return false
}

func TestWhatMakesARequestExpensive(t *testing.T) {
	t.Parallel()
	read := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	long, short := strings.Repeat("x", costlyBody+1), strings.Repeat("x", costlyBody)
	answers := func(n int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for range n {
				_, _ = w.Write(make([]byte, costlyAnswer/4))
			}
		}
	}
	zipped := func(resource bool) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			r.Context().Value(slotKey{}).(*slot).ofResource = resource
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusOK)
		}
	}
	reads := func(sizes ...int) func(http.ResponseWriter, *http.Request) {
		return func(_ http.ResponseWriter, r *http.Request) {
			for _, n := range sizes {
				Read(r.Context(), n)
			}
		}
	}
	for name, c := range map[string]struct {
		who     user.Info
		content string
		does    func(http.ResponseWriter, *http.Request)
		want    bool
	}{
		"nothing":             {ann, "", func(http.ResponseWriter, *http.Request) {}, false},
		"a body":              {ann, short, read, false},
		"a long body":         {ann, long, read, true},
		"a long body, unread": {ann, long, func(http.ResponseWriter, *http.Request) {}, false},
		"an answer":           {ann, "", answers(4), false},
		"a long answer":       {ann, "", answers(5), true},
		"a long watch": {ann, "", func(w http.ResponseWriter, r *http.Request) {
			r.Context().Value(slotKey{}).(*slot).watches = true
			answers(5)(w, r)
		}, false},
		"a compressed answer":      {ann, "", zipped(true), true},
		"a compressed document":    {ann, "", zipped(false), false},
		"some that is read":        {ann, "", reads(costlyAnswer), false},
		"much that is read":        {ann, "", reads(costlyAnswer/2, costlyAnswer/2, 1), true},
		"an admin's long body":     {&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, long, read, false},
		"much that an admin reads": {&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, "", reads(1 << 30), false},
	} {
		l := computing()
		l.serve(t, httptest.NewRecorder(), "noisy", c.who, c.content, func(w http.ResponseWriter, r *http.Request) {
			c.does(w, r)
			if got := l.busy("noisy"); got != c.want {
				t.Errorf("%s: expensive is %v, want %v", name, got, c.want)
			}
			if l.busy("quiet") {
				t.Errorf("%s: nothing is left to another logical cluster", name)
			}
		})
		if l.busy("noisy") {
			t.Errorf("%s: it keeps the processor when it is over", name)
		}
	}
}

// A reader who takes his time, a disk that does, and a webhook hold up no other request.
func TestAnExpensiveRequestThatWaitsComputesNothing(t *testing.T) {
	t.Parallel()
	l := computing()
	looks := &looking{ResponseWriter: httptest.NewRecorder(), look: func() {
		if l.busy("noisy") {
			t.Error("it has a processor while its answer is read")
		}
	}}
	l.serve(t, looks, "noisy", ann, "", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if err := Expensive(ctx); err != nil {
			t.Fatal(err)
		}
		for name, wait := range map[string]func(context.Context) func(){"Wait": Wait, "Suspend": Suspend, "both": func(ctx context.Context) func() {
			outer, inner := Suspend(ctx), Wait(ctx)
			return func() { inner(); outer() }
		}} {
			back := wait(ctx)
			if l.busy("noisy") {
				t.Errorf("%s: it keeps the processor", name)
			}
			back()
			if !l.busy("noisy") {
				t.Errorf("%s: it has none afterwards", name)
			}
		}
		_, _ = w.Write([]byte("answer"))
		if looks.seen == 0 || !l.busy("noisy") {
			t.Error("it has no processor after it wrote")
		}
		back := Suspend(ctx)
		r.Context().Value(slotKey{}).(*slot).free() // it is over, as far as others know
		back()
		if l.busy("noisy") {
			t.Error("it takes a processor after its end")
		}
	})
}

type looking struct {
	http.ResponseWriter
	look func()
	seen int
}

func (l *looking) Write(p []byte) (int, error) {
	l.seen++
	l.look()
	return l.ResponseWriter.Write(p)
}

func TestExpensiveRequestsOfALogicalClusterWaitForEachOther(t *testing.T) {
	t.Parallel()
	l := computing()
	l.serve(t, httptest.NewRecorder(), "noisy", ann, "", func(_ http.ResponseWriter, first *http.Request) {
		if err := Expensive(first.Context()); err != nil {
			t.Fatal(err)
		}
		l.serve(t, httptest.NewRecorder(), "noisy", ann, strings.Repeat("x", costlyBody+1), func(_ http.ResponseWriter, second *http.Request) {
			ctx, cancel := context.WithTimeout(second.Context(), 20*time.Millisecond)
			defer cancel()
			second.Body.(*body).ctx = ctx
			_, err := io.ReadAll(second.Body)
			if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), `"noisy"`) {
				t.Errorf("a second one: %v", err)
			}
			if _, err := Evaluate(ctx); !apierrors.IsTooManyRequests(err) {
				t.Errorf("policies for a second one: %v", err)
			}
		})
		l.serve(t, httptest.NewRecorder(), "quiet", ann, strings.Repeat("x", costlyBody+1), func(_ http.ResponseWriter, other *http.Request) {
			if _, err := io.ReadAll(other.Body); err != nil {
				t.Errorf("a neighbour's: %v", err)
			}
		})
		done, err := Evaluate(first.Context()) // with the processor that it has
		if err != nil {
			t.Errorf("policies for the first one: %v", err)
		} else if done(); !l.busy("noisy") {
			t.Error("policies gave back what they did not take")
		}
	})
	if done, err := Evaluate(context.Background()); err != nil {
		t.Errorf("no request: %v", err)
	} else {
		done()
	}
}

func TestTheErrorOfABodyIsThatOfItsReader(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	b := &body{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("some"), failing{cut})), ctx: t.Context()}
	if got, err := io.ReadAll(b); string(got) != "some" || !errors.Is(err, cut) {
		t.Errorf("%q, %v", got, err)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

func TestWhoGetsNoProcessorAgainGoesOnWithout(t *testing.T) {
	t.Parallel()
	l := computing()
	l.serve(t, httptest.NewRecorder(), "noisy", ann, "", func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if err := Expensive(ctx); err != nil {
			t.Fatal(err)
		}
		back := Wait(ctx)
		release, err := l.processors.Take(ctx, "noisy", 1)
		if err != nil {
			t.Fatal(err)
		}
		back() // what has the processor waits for this request, maybe
		release()
		if l.busy("noisy") {
			t.Error("it has a processor that it did not wait for")
		}
		Wait(ctx)()
		if !l.busy("noisy") {
			t.Error("it does not try again")
		}
	})
}

// Expressions of tenants cost the same whoever's request meets them.
func TestWhoeverEvaluatesHasAProcessorUntilItIsDone(t *testing.T) {
	t.Parallel()
	root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	for name, who := range map[string]user.Info{"a user": ann, "the system": root} {
		l := computing()
		var over context.Context
		l.serve(t, httptest.NewRecorder(), "noisy", who, "", func(_ http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			outer, err := Compute(ctx)
			if err != nil {
				t.Fatal(err)
			}
			inner, err := Compute(ctx) // needs no second one, or it would wait for itself
			if err != nil {
				t.Fatal(err)
			}
			if inner(); !l.busy("noisy") {
				t.Errorf("%s: it has no processor", name)
			}
			back := Wait(ctx)
			if l.busy("noisy") {
				t.Errorf("%s: it keeps the processor while it waits", name)
			}
			back()
			if !l.busy("noisy") || l.busy("quiet") {
				t.Errorf("%s: it has another processor than before it waited", name)
			}
			if outer(); l.busy("noisy") {
				t.Errorf("%s: it keeps the processor when it is done", name)
			}
			if _, err := Compute(ctx); err != nil || !l.busy("noisy") { // never done
				t.Errorf("%s: it has no processor the next time: %v", name, err)
			}
			over = ctx
		})
		if l.busy("noisy") {
			t.Errorf("%s: it keeps the processor when the request is over", name)
		}
		if _, err := Compute(over); err != nil || l.busy("noisy") {
			t.Errorf("%s: what goes on after the request takes one: %v", name, err)
		}
	}
}

func TestTheSystemGoesOnWithoutAProcessor(t *testing.T) {
	t.Parallel()
	l := computing()
	release, err := l.processors.Take(t.Context(), "noisy", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	l.serve(t, httptest.NewRecorder(), "noisy", root, "", func(_ http.ResponseWriter, r *http.Request) {
		done, err := Compute(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		done()
	})
	l.serve(t, httptest.NewRecorder(), "noisy", ann, "", func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := Compute(ctx); !apierrors.IsTooManyRequests(err) {
			t.Errorf("a user: %v", err)
		}
	})
}

func TestTheBudgetIsSpentByWhatIsComputedOnly(t *testing.T) {
	t.Parallel()
	l := computing()
	l.serve(t, httptest.NewRecorder(), "noisy", ann, "", func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		budget := BudgetOf(ctx)
		budget.Spend(EvaluationBudget - 10*time.Millisecond)
		waits := Wait(ctx)
		within, spent := budget.Within(ctx)
		select {
		case <-within.Done():
			t.Error("it ends while the request waits for somebody else")
		case <-time.After(50 * time.Millisecond):
		}
		waits()
		<-within.Done()
		if !spent() || budget.Left() > 0 || ctx.Err() != nil {
			t.Errorf("spent, with %s left; the request: %v", budget.Left(), ctx.Err())
		}
		within, spent = budget.Within(ctx)
		<-within.Done()
		if !spent() {
			t.Error("a spent budget lets more be evaluated")
		}
	})
}

// A large answer is encoded in parts: the first one that nobody waits for any more is the last.
func TestAnExpensiveAnswerEndsWhenWhoAskedHasLeft(t *testing.T) {
	t.Parallel()
	for name, expensive := range map[string]bool{"a cheap one": false, "an expensive one": true} {
		l := computing()
		l.serve(t, httptest.NewRecorder(), "noisy", ann, "", func(w http.ResponseWriter, r *http.Request) {
			if expensive {
				if err := Expensive(r.Context()); err != nil {
					t.Fatal(err)
				}
			}
			gone, leave := context.WithCancel(r.Context())
			a := &answer{ResponseWriter: w, ctx: gone, slot: r.Context().Value(slotKey{}).(*slot)}
			if _, err := a.Write([]byte("part")); err != nil {
				t.Errorf("%s, while he is there: %v", name, err)
			}
			leave()
			if _, err := a.Write([]byte("part")); errors.Is(err, context.Canceled) != expensive {
				t.Errorf("%s, when he has left: %v", name, err)
			}
		})
	}
}
