package fairness

import (
	"container/list"
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/processors"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// inFlightPerCore is how many requests of one logical cluster are served at a time,
	// for each core. Priority and fairness shares the requests in flight, not the
	// processor: hundreds of requests in flight leave nothing to the next.
	inFlightPerCore = 4
	minInFlight     = 8
	// maxWaitingRequests is how many requests of one logical cluster wait for a slot; more
	// are refused (429).
	maxWaitingRequests = 1000
)

// Limiter bounds how many requests of one logical cluster are served at a time.
type Limiter struct {
	most, longest int
	// asked is how many an admin asks for, of a logical cluster; 0 for the default.
	asked    func(context.Context, logicalcluster.Name) int64
	entrance *entrance
	// processors are for requests that are expensive.
	processors *weighed.Room
	// bodies are those that arrive.
	bodies *bodies
	// throttle delays those who ask in vain.
	throttle *throttle

	mu     sync.Mutex
	queues map[string]*queue
	calls  map[calls]int // of webhooks, in flight
}

// queue is of those who share slots; it is there while it has any.
type queue struct {
	taken   int
	most    int       // as the last request found it
	waiting list.List // of chan struct{}, closed by who hands over his slot
}

// NewLimiter makes slots for this machine; asked says how many an admin asks for in place
// of the default, which is 0, and own which requests the server sends itself.
func NewLimiter(asked func(context.Context, logicalcluster.Name) int64, own func(*http.Request) bool) *Limiter {
	return &Limiter{
		most: max(minInFlight, inFlightPerCore*processors.Count()), longest: maxWaitingRequests, asked: asked,
		entrance: newEntrance(own), processors: newProcessors(),
		bodies: newBodies(defaultBodyBounds, clock.RealClock{}), throttle: newThrottle(clock.RealClock{}), queues: map[string]*queue{}, calls: map[calls]int{},
	}
}

// mostOf is how many requests of a logical cluster are served at a time.
func (t *Limiter) mostOf(ctx context.Context, c logicalcluster.Name) int {
	switch asked := t.asked(ctx, c); {
	case asked < 0, asked > math.MaxInt32:
		return math.MaxInt32
	case asked > 0:
		return int(asked)
	}
	return t.most
}

// take waits for one of most slots; false if ctx ends first or the queue is too long.
func (t *Limiter) take(ctx context.Context, who string, most int) bool {
	t.mu.Lock()
	l := t.queues[who]
	if l == nil {
		l = &queue{}
		t.queues[who] = l
	}
	l.most = most
	if l.taken < most {
		l.taken++
		t.mu.Unlock()
		return true
	}
	if l.waiting.Len() >= t.longest {
		t.mu.Unlock()
		return false
	}
	mine := make(chan struct{})
	place := l.waiting.PushBack(mine)
	t.mu.Unlock()
	select {
	case <-mine:
		processors.GiveWay()
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine: // it came at the same moment
		return true
	default:
		l.waiting.Remove(place)
		return false
	}
}

// takeBack takes a slot without waiting, even if that makes one too many.
func (t *Limiter) takeBack(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.queues[who]
	if l == nil {
		l = &queue{most: t.most}
		t.queues[who] = l
	}
	l.taken++
}

// give ends a slot: the first who waits gets it.
func (t *Limiter) give(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.queues[who]
	first := l.waiting.Front()
	if first != nil && l.taken <= l.most {
		close(l.waiting.Remove(first).(chan struct{}))
		return
	}
	if l.taken--; l.taken == 0 {
		delete(t.queues, who)
	}
}

// slot is that of one request.
type slot struct {
	slots *Limiter
	// borrowed says that the user is not who he says.
	borrowed bool
	// entered gives back its place at the entrance, once.
	entered func()
	// uri is how long that of the request is.
	uri int
	// watches says that the request is a watch.
	watches bool
	// ofResource says that the request is one of a resource: documents of discovery and OpenAPI are
	// compressed when they are made, not when they are answered.
	ofResource bool
	// code is the status that was answered, 0 if none was.
	code atomic.Int32

	budget Budget

	mu        sync.Mutex
	who       string // not empty while the request has its slot
	syncer    string // not empty if the request is of one
	suspended int
	processor processor
	// inVain says that a call of a webhook was refused.
	inVain bool
	// refused is how many slots there were when the request got none; 0 if it got one.
	refused int
	// refusal is what is answered as the body was not read; nil if it was.
	refusal *apierrors.StatusError
	body    *body // nil if the request has none

	// connection is locked while control is used, which is nil when the answer was given.
	connection sync.Mutex
	control    *http.ResponseController
	unfinished clock.Timer
	aborted    bool
	left       func() // ends the context of a request with a body
}

type slotKey struct{}

// With lets each request in, and gives it a slot to take, which Handle does.
func (t *Limiter) With(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		leave, refusal := t.entrance.pass(req)
		defer leave()
		if req.Context().Err() != nil {
			panic(http.ErrAbortHandler) // who asked has left, and nobody has looked at it yet
		}
		if refusal != nil {
			answerRefusal(w, refusal)
			return
		}
		mine := &slot{slots: t, borrowed: req.Header.Get(authenticationv1.ImpersonateUserHeader) != "", uri: len(req.RequestURI), entered: leave}
		mine.processor.room = t.processors
		defer mine.answered()
		next.ServeHTTP(measured(w, req.WithContext(context.WithValue(auth.TrackBound(req.Context()), slotKey{}, mine)), mine))
	})
}

// queueOf is with whom a request shares slots; false if it needs none.
//
//	admins, the server, syncers                        nobody: they need no slot
//	credentials of this logical cluster                all of the logical cluster
//	other credentials, impersonating                   all who impersonate there
//	other credentials (identity providers, anonymous)  the user, there
//
// Whoever may make credentials, or impersonate, cannot make himself slots with
// it; somebody who floods a logical cluster does not take those of its users.
func queueOf(bound, borrowed bool, c logicalcluster.Name, u user.Info) (string, bool) {
	if _, syncs := auth.SyncerOf(u); syncs {
		return "", false
	}
	for _, group := range u.GetGroups() {
		if group == user.SystemPrivilegedGroup {
			return "", false
		}
	}
	switch {
	case bound:
		return c.String(), true
	case borrowed:
		return c.String() + " impersonated", true
	default:
		return c.String() + " " + u.GetName(), true
	}
}

// Refusing answers, in place of next, requests whose body was not read, and those that got no slot: most says how many there
// are. What priority and fairness answers itself names no limit.
func Refusing(next http.Handler, refuse func(w http.ResponseWriter, c logicalcluster.Name, most int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if t, ok := req.Context().Value(slotKey{}).(*slot); ok {
			t.entered() // what is open for long takes no slot
			t.mu.Lock()
			most, refusal := t.refused, t.refusal
			t.mu.Unlock()
			if refusal != nil {
				answerRefusal(w, refusal)
				return
			}
			if most > 0 {
				c, _ := scope.ClusterFrom(req.Context())
				refuse(w, c, most)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

func answerRefusal(w http.ResponseWriter, refusal *apierrors.StatusError) {
	if refusal.ErrStatus.Details != nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(refusal.ErrStatus.Details.RetryAfterSeconds)))
	}
	refusal.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	responsewriters.WriteRawJSON(int(refusal.ErrStatus.Code), refusal.ErrStatus, w)
}

// begin takes the slot of the request of ctx; false says that it was refused.
func begin(ctx context.Context, u user.Info) (end func(), ok bool) {
	Entered(ctx)
	t, given := ctx.Value(slotKey{}).(*slot)
	c, scoped := scope.ClusterFrom(ctx)
	if !given || !scoped || u == nil {
		return func() {}, true
	}
	who, needed := queueOf(auth.IsBound(ctx), t.borrowed, c, u)
	if !needed {
		t.mu.Lock()
		t.syncer, _ = auth.SyncerOf(u)
		t.mu.Unlock()
		return t.free, true
	}
	most := t.slots.mostOf(ctx, c)
	if !t.slots.throttle.wait(ctx, who) || !t.slots.take(ctx, who, most) {
		t.slots.throttle.inVain(who)
		t.mu.Lock()
		t.refused = most
		t.mu.Unlock()
		return nil, false
	}
	t.mu.Lock()
	t.who, t.processor.cluster = who, c
	t.mu.Unlock()
	return func() { t.end(ctx.Err()) }, true
}

// end ends the slot of a request; left is not nil if nobody waits for its answer any more.
func (t *slot) end(left error) {
	t.free()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inVain || isInVain(int(t.code.Load()), t.watches, left) {
		t.slots.throttle.inVain(t.who)
	}
	if t.suspended == 0 {
		t.slots.give(t.who)
	}
	t.who = ""
}

// Suspend gives up the slot of the request of ctx while it waits for somebody else,
// such as a webhook, which may well ask the same logical cluster before it answers, and the
// processor if it has one. The result takes back what it had.
func Suspend(ctx context.Context) (back func()) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	if !ok {
		return func() {}
	}
	t.wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.suspended++; t.suspended == 1 && t.who != "" {
		t.slots.give(t.who)
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		if t.suspended--; t.suspended == 0 && t.who != "" {
			t.slots.takeBack(t.who)
		}
		t.mu.Unlock()
		t.resume(ctx)
	})
}
