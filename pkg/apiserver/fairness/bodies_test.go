package fairness

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestOnWhoseAccountABodyIsRead(t *testing.T) {
	t.Parallel()
	admin := &user.DefaultInfo{Name: "ann", Groups: []string{user.SystemPrivilegedGroup}}
	syncer := &user.DefaultInfo{Name: "system:atoll:syncer:east", Groups: []string{auth.SyncersGroup}}
	for name, c := range map[string]struct {
		bound, borrowed bool
		u               user.Info
		want            sender
	}{
		"an admin":                          {false, false, admin, sender{}},
		"a syncer":                          {false, false, syncer, sender{"syncer east", ""}},
		"credentials of a logical cluster":  {true, false, ann, sender{"of shop", "ann"}},
		"the same, impersonating":           {true, true, ann, sender{"of shop", "ann"}},
		"an identity provider's":            {false, false, ann, sender{"user ann", ""}},
		"an identity provider's, as others": {false, true, ann, sender{"in shop", ""}},
	} {
		if got, counted := senderOf(c.bound, c.borrowed, "shop", c.u); got != c.want || counted != (c.want != sender{}) {
			t.Errorf("%s: %v, %v, want %v", name, got, counted, c.want)
		}
	}
}

func TestWhichBodyGivesWay(t *testing.T) {
	t.Parallel()
	from := func(owner, user string, age time.Duration) *arrival {
		return &arrival{sender: sender{owner, user}, began: time.Unix(1000, 0).Add(-age)}
	}
	many := func(n int, owner, user string, age time.Duration) (out []*arrival) {
		for range n {
			out = append(out, from(owner, user, age))
		}
		return out
	}
	all := func(parts ...[]*arrival) (out []*arrival) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	const none = -2
	for name, c := range map[string]struct {
		arriving []*arrival
		from     sender
		want     int // its place; -1 is the new one
	}{
		"there is room":                                          {many(2, "a", "x", time.Minute), sender{"a", "x"}, none},
		"of its user, the first":                                 {all(many(1, "a", "y", time.Minute), many(3, "a", "x", 2*time.Second)), sender{"a", "x"}, 1},
		"of its user, all are new":                               {many(3, "a", "x", time.Second), sender{"a", "x"}, -1},
		"of its owner, of who has the most":                      {all(many(1, "a", "y", time.Minute), many(2, "a", "x", 0), many(2, "a", "z", time.Minute)), sender{"a", "z"}, 3},
		"of its owner, of another who has more":                  {all(many(1, "a", "y", time.Minute), many(1, "a", "w", time.Minute), many(3, "a", "x", 0)), sender{"a", "z"}, 2},
		"of its owner, each has one, which is new":               {all(many(1, "a", "y", 0), many(1, "a", "w", 0), many(1, "a", "x", 0), many(1, "a", "v", 0), many(1, "a", "z", 0)), sender{"a", "z"}, -1},
		"of all, of the owner who has the most":                  {all(many(1, "c", "", time.Minute), many(2, "b", "x", time.Minute), many(1, "a", "y", 0), many(3, "a", "x", 0)), sender{"c", ""}, 4},
		"of all, who asks has the most":                          {all(many(2, "c", "", time.Minute), many(2, "b", "x", time.Minute), many(3, "a", "x", 0)), sender{"b", "x"}, 2},
		"of all, who asks is of the owner who has the most":      {all(many(2, "c", "", time.Minute), many(2, "b", "x", time.Minute), many(2, "a", "x", 0), many(1, "a", "z", 0)), sender{"a", "y"}, 4},
		"of all, nobody has more, and who asks has none like it": {all(many(1, "1", "", 0), many(1, "2", "", 0), many(1, "3", "", 0), many(1, "4", "", 0), many(1, "5", "", 0), many(1, "6", "", 0), many(1, "7", "", 0)), sender{"8", ""}, -1},
	} {
		b := newBodies(bodyBounds{ofUser: 3, ofOwner: 5, ofAll: 7, pressedGrace: time.Second, room: 1, share: 1}, clocktesting.NewFakeClock(time.Unix(1000, 0)))
		b.arriving = c.arriving
		got, full := b.victim(&arrival{sender: c.from})
		if !full {
			got = none
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestWhoseSlowBodiesMakeRoom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held   map[string]int64
		weight int64
		want   string
	}{
		"the share of who waits is used up": {map[string]int64{"a": 8, "b": 8}, 3, "a"},
		"the room is used up":               {map[string]int64{"b": 10, "c": 10, "d": 4}, 1, "bc"},
		"by those who have little each":     {map[string]int64{"b": 8, "c": 8, "d": 8}, 1, "bcd"},
	} {
		b := newBodies(bodyBounds{pressedGrace: time.Second, pressedPace: 10, room: 24, share: 10}, clocktesting.NewFakeClock(time.Unix(1000, 0)))
		b.held = c.held
		var cut string
		for _, owner := range []string{"d", "c", "b", "a"} { // the last is looked at first
			for _, a := range []*arrival{
				{sender: sender{owner, ""}, began: time.Unix(998, 0), roomy: true},
				{sender: sender{owner, "it has no room"}, began: time.Unix(998, 0)},
				{sender: sender{owner, "it keeps the pace"}, began: time.Unix(998, 0), read: 10, roomy: true},
			} {
				a.cut = func() { cut += a.owner + a.user }
				b.arriving = append(b.arriving, a)
			}
		}
		b.press("a", c.weight)
		if cut != c.want {
			t.Errorf("%s: %q, want %q", name, cut, c.want)
		}
	}
}

// fast are bounds that a test does not wait for.
func fast() bodyBounds {
	b := defaultBodyBounds
	b.grace, b.pressedGrace = 300*time.Millisecond, 100*time.Millisecond
	return b
}

// through is priority and fairness that lets everybody through.
type through struct{ flowcontrol.Interface }

func (through) Handle(_ context.Context, _ flowcontrol.RequestDigest, _ func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string), _ func() fcrequest.WorkEstimate, _ fq.QueueNoteFn, execute func()) {
	execute()
}

// serving is a server for the logical cluster shop, whose requests take slots of l; the header User says
// whose they are.
func serving(t *testing.T, l *Limiter, protocol int, handle http.HandlerFunc) (string, *http.Client) {
	t.Helper()
	refusing := Refusing(handle, func(w http.ResponseWriter, _ logicalcluster.Name, _ int) { w.WriteHeader(http.StatusTooManyRequests) })
	return listening(t, l, protocol, func(w http.ResponseWriter, r *http.Request, u user.Info) {
		digest := flowcontrol.RequestDigest{RequestInfo: &request.RequestInfo{Verb: "create"}, User: u}
		New(through{}).Handle(r.Context(), digest, nil, nil, nil, func() {
			if err := r.Context().Err(); err != nil {
				t.Errorf("nobody would be answered: %v", err)
			}
			refusing.ServeHTTP(w, r)
		})
	})
}

func listening(t *testing.T, l *Limiter, protocol int, serve func(http.ResponseWriter, *http.Request, user.Info)) (string, *http.Client) {
	t.Helper()
	limited := l.With(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.MarkBound(r.Context())
		serve(w, r, &user.DefaultInfo{Name: r.Header.Get("User")})
	}))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r.WithContext(scope.WithCluster(r.Context(), clusterNamed("shop"))))
	}))
	s.EnableHTTP2 = protocol == 2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, s.Client()
}

// drip sends bytes of a body until the request is over.
func drip(ctx context.Context, t *testing.T, client *http.Client, url, user string, first []byte, interval time.Duration) (int, string, error) {
	t.Helper()
	r, w := io.Pipe()
	over := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(over)
	all.Go(func() {
		defer func() { _ = w.Close() }()
		for part := first; ; part = []byte(" ") {
			if _, err := w.Write(part); err != nil {
				return
			}
			select {
			case <-time.After(interval):
			case <-over:
				return
			}
		}
	})
	defer func() { _ = r.Close() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User", user)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(reply), err
}

func TestBodiesThatComeSlowlyHoldNoSlot(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", protocol), func(t *testing.T) {
			t.Parallel()
			const slow = 20
			l := testLimiter(1, 100)
			b := fast()
			b.grace = 3 * time.Second // all are there, and others beside, also on a machine that does much else
			l.bodies = newBodies(b, clock.RealClock{})
			url, client := serving(t, l, protocol, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			var (
				all      sync.WaitGroup
				answered atomic.Int32
			)
			for range slow {
				all.Go(func() {
					code, reply, err := drip(t.Context(), t, client, url, "mallory", []byte("{"), 10*time.Millisecond)
					switch {
					case protocol == 1 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
						// It wrote on when the connection had ended, before it looked for the answer.
					case err != nil || code != http.StatusRequestTimeout || !strings.Contains(reply, "too slowly"):
						t.Errorf("a slow body: %d %s %v", code, reply, err)
					default:
						answered.Add(1)
					}
				})
			}
			deadline := time.Now().Add(10 * time.Second)
			for l.arriving() < slow && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			for range 20 {
				if code, err := post(t.Context(), t, client, url, "ann", strings.NewReader("{}")); code != http.StatusOK {
					t.Fatalf("beside them: %d %v", code, err)
				}
			}
			if n := l.arriving(); n < slow {
				t.Errorf("%d slow ones only were there meanwhile", n)
			}
			if all.Wait(); answered.Load() == 0 {
				t.Error("nobody got an answer")
			}
			if n := l.arriving(); n > 0 || len(l.queues) > 0 {
				t.Errorf("%d bodies and %d queues are left", n, len(l.queues))
			}
		})
	}
}

// The same, read by who has a slot.
func TestWithoutReadingAheadASlowBodyHoldsASlot(t *testing.T) {
	t.Parallel()
	l := testLimiter(1, 100)
	reading := make(chan struct{}, 2)
	url, client := listening(t, l, 1, func(_ http.ResponseWriter, r *http.Request, u user.Info) {
		end, ok := begin(r.Context(), u)
		if !ok {
			return
		}
		defer end()
		reading <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	slow, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { _, _, _ = drip(slow, t, client, url, "mallory", []byte("{"), 10*time.Millisecond) })
	<-reading
	brief, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if code, err := post(brief, t, client, url, "ann", strings.NewReader("{}")); err == nil {
		t.Errorf("beside it: %d", code)
	}
}

func TestWhatIsReadAheadIsWhatWasSent(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{1, 2} {
		for _, length := range []int{1, 100, chunk - 1, chunk, chunk + 1, 100_000, maxAhead - 1, maxAhead, maxAhead + 10, maxAhead + 300_000} {
			for _, chunked := range []bool{false, true} {
				sent := strings.Repeat("0123456789", length/10+1)[:length]
				l := testLimiter(1, 100)
				var got atomic.Pointer[string]
				var failed atomic.Pointer[error]
				url, client := serving(t, l, protocol, func(_ http.ResponseWriter, r *http.Request) {
					data, err := io.ReadAll(r.Body)
					all := string(data)
					got.Store(&all)
					failed.Store(&err)
				})
				var body io.Reader = strings.NewReader(sent)
				if chunked {
					body = io.MultiReader(body)
				}
				_, _ = post(t.Context(), t, client, url, "ann", body)
				if data, err := *got.Load(), *failed.Load(); data != sent[:min(length, maxAhead)] || length < maxAhead && err != nil || length > maxAhead && !apierrors.IsRequestEntityTooLargeError(err) {
					t.Errorf("HTTP/%d, %d bytes, chunked %v: %d bytes, %v", protocol, length, chunked, len(data), err)
				}
				if n := l.bodies.room; n == nil || l.bodies.all != 0 || len(l.bodies.held) != 0 {
					t.Errorf("%d bytes: %d are held, %v", length, l.bodies.all, l.bodies.held)
				}
			}
		}
	}
}

// An aggregated server reads as long as it likes.
func TestARequestThatIsWithSomebodyElseReadsOn(t *testing.T) {
	t.Parallel()
	sent := strings.Repeat("x", maxAhead+500_000)
	var got atomic.Int64
	url, client := serving(t, testLimiter(1, 100), 1, func(_ http.ResponseWriter, r *http.Request) {
		defer Suspend(r.Context())()
		n, _ := io.Copy(io.Discard, r.Body)
		got.Store(n)
	})
	if code, err := post(t.Context(), t, client, url, "ann", strings.NewReader(sent)); code != http.StatusOK || got.Load() != int64(len(sent)) {
		t.Errorf("%d bytes of %d, %d %v", got.Load(), len(sent), code, err)
	}
}

// HTTP/1 reads what is left of a body before it answers.
func TestWhatIsLeftOfABodyHoldsUpNoAnswer(t *testing.T) {
	t.Parallel()
	for protocol, send := range map[int]func(ctx context.Context, t *testing.T, client *http.Client, url, user string, first []byte, interval time.Duration) (int, string, error){1: dripping, 2: drip} {
		l := testLimiter(1, 100)
		url, client := serving(t, l, protocol, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
		began := time.Now()
		code, _, err := send(t.Context(), t, client, url, "mallory", make([]byte, maxAhead), 10*time.Millisecond)
		if took := time.Since(began); code != http.StatusForbidden || took > 8*time.Second {
			t.Errorf("HTTP/%d: %d after %s: %v", protocol, code, took, err)
		}
	}
}

// dripping is drip over HTTP/1 by a client that reads while it sends. Go's does not look at the answer once a
// part of the body could not be sent any more, as the server closes the connection after it.
func dripping(ctx context.Context, t *testing.T, client *http.Client, url, user string, first []byte, interval time.Duration) (int, string, error) {
	t.Helper()
	dialer := tls.Dialer{Config: client.Transport.(*http.Transport).TLSClientConfig}
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer conn.Close()
	all.Go(func() {
		_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: server\r\nUser: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", user, len(first), first)
		for ; err == nil; _, err = io.WriteString(conn, "1\r\n \r\n") {
			time.Sleep(interval)
		}
	})
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(reply), err
}

func TestLargeBodiesThatAreSlowMakeRoomForOthers(t *testing.T) {
	t.Parallel()
	l := testLimiter(10, 100)
	b := fast()
	b.grace, b.room, b.share = time.Minute, 4<<20, 1<<20
	l.bodies = newBodies(b, clock.RealClock{})
	url, client := serving(t, l, 2, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	var all sync.WaitGroup
	defer all.Wait()
	for range 3 {
		all.Go(func() {
			_, _, _ = drip(t.Context(), t, client, url, "mallory", make([]byte, b.small+1), 10*time.Millisecond)
		})
	}
	deadline := time.Now().Add(10 * time.Second)
	for l.holding() == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if l.holding() == 0 {
		t.Error("nothing is held")
	}
	for range 3 {
		if code, err := post(t.Context(), t, client, url, "ann", strings.NewReader(strings.Repeat("x", 900_000))); code != http.StatusOK {
			t.Errorf("beside them: %d %v", code, err)
		}
	}
	client.CloseIdleConnections()
}

func (t *Limiter) arriving() int {
	t.bodies.mu.Lock()
	defer t.bodies.mu.Unlock()
	return len(t.bodies.arriving)
}

func (t *Limiter) holding() int64 {
	t.bodies.mu.Lock()
	defer t.bodies.mu.Unlock()
	return t.bodies.all
}

func post(ctx context.Context, t *testing.T, client *http.Client, url, user string, body io.Reader) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User", user)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, errors.Join(resp.Body.Close())
}

// Over HTTP/2 each request has a body, of which nobody waits for the end: who leaves a watch is noticed,
// however long it was open.
func TestWhoLeavesAWatchIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		protocol int
		goesOn   bool // HTTP/1 looks whether the client is there when the body has ended
	}{"HTTP/1": {1, false}, "HTTP/2": {2, false}, "HTTP/2, with a body that goes on": {2, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, left := clocktesting.NewFakeClock(time.Unix(1e9, 0)), make(chan struct{})
			l := testLimiter(1, 10)
			l.bodies = newBodies(defaultBodyBounds, now)
			url, client := listening(t, l, c.protocol, func(w http.ResponseWriter, r *http.Request, _ user.Info) {
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				close(left)
			})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var sent io.Reader
			body, writes := io.Pipe()
			if c.goesOn {
				sent = body
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, sent)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.ProtoMajor != c.protocol {
				t.Fatalf("it speaks %s", resp.Proto)
			}
			now.Step(2 * unfinishedTimeout) // what is left of a body is cut by now
			leave()
			_ = writes.CloseWithError(context.Canceled) // the client reads it before it leaves
			select {
			case <-left:
			case <-time.After(30 * time.Second):
				t.Error("the watch goes on")
			}
		})
	}
}
