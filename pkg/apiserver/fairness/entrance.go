package fairness

import (
	"container/list"
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/processors"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// entrancePerCore is how many requests, for each core, are on their way from the connection
	// to their slot. It is nearly all computing, so more of them would wait for each other.
	entrancePerCore = 1
	// entranceTimeout is after how long a request waits no longer, and goes on beside the others.
	entranceTimeout = time.Second
)

// entrance is passed by the requests that come over the network, the logical clusters that
// they ask one after the other: who they are, and whether there is a slot for them, costs about as
// much as a small answer. Hundreds that come at once would have the processors for as
// long as that takes for all of them, and what somebody else is in the midst of stands still.
//
// Nobody is known yet, and a name of a logical cluster costs nothing. So the entrance refuses
// nobody and keeps nobody for longer than entranceTimeout: what it gives is an order.
//
// Selectors are parsed here, and one of 30 KiB takes as long as hundreds of other requests. Those
// whose URI is that long take one of the processors that do what is expensive first, which leaves
// half of the places to others, and are refused if there is none in time.
type entrance struct {
	timeout time.Duration
	// long has the requests whose URI is expensive.
	long *weighed.Room
	// own says that the server sent a request itself.
	own func(*http.Request) bool

	mu   sync.Mutex
	free int
	// flows are the logical clusters that have somebody waiting, the next one first, as *flow.
	flows   list.List
	waiting map[logicalcluster.Name]*list.Element
}

// flow is the requests of a logical cluster that wait.
type flow struct {
	cluster logicalcluster.Name
	waiting list.List // of chan struct{}, closed by who hands over his place
}

func newEntrance(own func(*http.Request) bool) *entrance {
	return &entrance{timeout: entranceTimeout, long: newProcessors(), own: own, free: entrancePerCore * processors.Count(), waiting: map[logicalcluster.Name]*list.Element{}}
}

// enter waits for a place, and returns what gives it back.
func (e *entrance) enter(ctx context.Context, c logicalcluster.Name) (leave func()) {
	e.mu.Lock()
	if e.free > 0 {
		e.free--
		e.mu.Unlock()
		return e.leave
	}
	at := e.waiting[c]
	if at == nil {
		at = e.flows.PushBack(&flow{cluster: c})
		e.waiting[c] = at
	}
	mine := make(chan struct{})
	place := at.Value.(*flow).waiting.PushBack(mine)
	e.mu.Unlock()
	timeout := time.NewTimer(e.timeout)
	defer timeout.Stop()
	select {
	case <-mine:
		// Who was handed a place would be next on this processor, before everybody whom
		// the network has woken meanwhile, for as long as somebody waits here.
		runtime.Gosched()
		return e.leave
	case <-timeout.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-mine: // it came at the same moment
		return e.leave
	default:
		e.remove(at, place)
		return func() {}
	}
}

// leave hands a place to the next logical cluster that has somebody waiting.
func (e *entrance) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.flows.Front()
	if at == nil {
		e.free++
		return
	}
	e.flows.MoveToBack(at)
	first := at.Value.(*flow).waiting.Front()
	e.remove(at, first)
	close(first.Value.(chan struct{}))
}

func (e *entrance) remove(at, place *list.Element) {
	t := at.Value.(*flow)
	if t.waiting.Remove(place); t.waiting.Len() == 0 {
		e.flows.Remove(at)
		delete(e.waiting, t.cluster)
	}
}

// pass waits at the entrance for a request, unless it is the server's own; or says with what it
// is refused.
func (e *entrance) pass(req *http.Request) (leave func(), refusal *apierrors.StatusError) {
	c, scoped := scope.ClusterFrom(req.Context())
	if !scoped || e.own(req) {
		return func() {}, nil
	}
	parsed := func() {}
	if len(req.RequestURI) > costlyURI {
		release, err := e.long.Take(req.Context(), c, 1)
		if err != nil {
			return func() {}, busy(c, "its URI is a long one", err)
		}
		parsed = release
	}
	entered := e.enter(req.Context(), c)
	return sync.OnceFunc(func() {
		entered()
		parsed()
	}), nil
}

// Entered gives back the place that the request of ctx has at the entrance, before it waits for
// somebody else.
func Entered(ctx context.Context) {
	if t, ok := ctx.Value(slotKey{}).(*slot); ok {
		t.entered()
	}
}
