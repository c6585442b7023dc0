package fairness

import (
	"container/list"
	"context"
	"net/http"
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
// One logical cluster leaves a place to others, where there are two: who has the places may stand still, as
// the kernel divides the processors, and who comes now and then would stand behind him.
//
// Selectors are parsed here, and one of 30 KiB takes as long as hundreds of other requests. Those
// whose URI is that long take one of the processors that do what is expensive first, which leaves half of the
// places to others, their own logical cluster among them, and are refused if there is none in time.
type entrance struct {
	timeout time.Duration
	// long has the requests whose URI is expensive.
	long *weighed.Room
	// own says that the server sent a request itself.
	own func(*http.Request) bool

	mu   sync.Mutex
	free int
	// share is how many places one flow has at most, inside how many it has.
	share  int
	inside map[flowKey]int
	// flows are those that have somebody waiting, the next one first, as *flow.
	flows   list.List
	waiting map[flowKey]*list.Element
}

// flowKey says which requests are one flow: those of a logical cluster, and of these those with a long URI by
// themselves.
type flowKey struct {
	cluster logicalcluster.Name
	long    bool // their URI is
}

// flow has its requests that wait.
type flow struct {
	flowKey
	waiting list.List // of chan struct{}, closed by who hands over his place
}

func newEntrance(own func(*http.Request) bool) *entrance {
	places := entrancePerCore * processors.Count()
	return &entrance{
		timeout: entranceTimeout, long: newProcessors(), own: own, free: places, share: max(1, places-1),
		inside: map[flowKey]int{}, waiting: map[flowKey]*list.Element{},
	}
}

// enter waits for a place, and returns what gives it back.
func (e *entrance) enter(ctx context.Context, c flowKey) (leave func()) {
	e.mu.Lock()
	if e.free > 0 && e.inside[c] < e.share {
		e.free--
		e.inside[c]++
		e.mu.Unlock()
		return func() { e.leave(c) }
	}
	at := e.waiting[c]
	if at == nil {
		at = e.flows.PushBack(&flow{flowKey: c})
		e.waiting[c] = at
	}
	mine := make(chan struct{})
	place := at.Value.(*flow).waiting.PushBack(mine)
	e.mu.Unlock()
	timeout := time.NewTimer(e.timeout)
	defer timeout.Stop()
	select {
	case <-mine:
		processors.GiveWay()
		return func() { e.leave(c) }
	case <-timeout.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-mine: // it came at the same moment
		return func() { e.leave(c) }
	default:
		e.remove(at, place)
		return func() {}
	}
}

// leave hands the place of a flow to the next one that has somebody waiting, and not its share inside.
func (e *entrance) leave(c flowKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inside[c]--; e.inside[c] == 0 {
		delete(e.inside, c)
	}
	for at := e.flows.Front(); at != nil; at = at.Next() {
		next := at.Value.(*flow)
		if e.inside[next.flowKey] >= e.share {
			continue
		}
		e.inside[next.flowKey]++
		e.flows.MoveToBack(at)
		first := next.waiting.Front()
		e.remove(at, first)
		close(first.Value.(chan struct{}))
		return
	}
	e.free++
}

func (e *entrance) remove(at, place *list.Element) {
	t := at.Value.(*flow)
	if t.waiting.Remove(place); t.waiting.Len() == 0 {
		e.flows.Remove(at)
		delete(e.waiting, t.flowKey)
	}
}

// pass waits at the entrance for a request, unless it is the server's own; or says with what it
// is refused.
func (e *entrance) pass(req *http.Request) (leave func(), refusal *apierrors.StatusError) {
	c, scoped := scope.ClusterFrom(req.Context())
	if !scoped || e.own(req) {
		return func() {}, nil
	}
	if len(req.RequestURI) <= costlyURI {
		return sync.OnceFunc(e.enter(req.Context(), flowKey{cluster: c})), nil
	}
	parsed, err := e.long.Take(req.Context(), c, 1)
	if err != nil {
		return func() {}, busy(c, "its URI is a long one", err)
	}
	entered := e.enter(req.Context(), flowKey{c, true})
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
