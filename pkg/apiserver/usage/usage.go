package usage

import (
	"net/http"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// mostNamed is how many logical clusters have their name in metrics at a time.
	mostNamed = 100
	// idleTimeout is after how long without a request one gives its place to another.
	idleTimeout = 10 * time.Minute
	// others is the label of all that have no place; it is no valid name.
	others = "_others"

	label = "logical_cluster"
)

var (
	requests = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "atoll_logical_cluster_requests_total",
		Help:           "Requests of users, by logical cluster. At most 100 are named; the others are _others.",
		StabilityLevel: metrics.ALPHA,
	}, []string{label})
	seconds = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "atoll_logical_cluster_request_seconds_total",
		Help:           "How long requests of users were served, but for watches, by logical cluster. At most 100 are named; the others are _others.",
		StabilityLevel: metrics.ALPHA,
	}, []string{label})

	// once: metrics are of the process.
	once sync.Once
)

// Usage counts.
type Usage struct {
	now func() time.Time

	mu   sync.Mutex
	last map[logicalcluster.Name]time.Time // of those that have a place
	// looked is when places were last looked through for idle ones.
	looked time.Time
}

// New makes the metrics known.
func New() *Usage {
	once.Do(func() { legacyregistry.MustRegister(requests, seconds) })
	return &Usage{now: time.Now, last: map[logicalcluster.Name]time.Time{}}
}

// With counts what next serves. It belongs behind authorization and behind the
// check that the logical cluster exists: nobody takes places with made-up names. Syncers
// are no users, and may ask for any name.
func (u *Usage) With(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		c, ok := scope.ClusterFrom(ctx)
		who, known := request.UserFrom(ctx)
		_, viewed := scope.TargetFrom(ctx)
		if !ok || c == scope.Wildcard || viewed || !known || auth.IsSystem(who) {
			next.ServeHTTP(w, req)
			return
		}
		began := u.now()
		name := u.name(c)
		requests.WithLabelValues(name).Inc()
		if info, ok := request.RequestInfoFrom(ctx); !ok || info.Verb != "watch" {
			defer func() { seconds.WithLabelValues(name).Add(u.now().Sub(began).Seconds()) }()
		}
		next.ServeHTTP(w, req)
	})
}

// name is what c is called in metrics.
func (u *Usage) name(c logicalcluster.Name) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if _, named := u.last[c]; !named && len(u.last) >= mostNamed {
		u.makeRoom(now)
		if len(u.last) >= mostNamed {
			return others
		}
	}
	u.last[c] = now
	return c.String()
}

// makeRoom takes the places of idle logical clusters, once a minute at most.
func (u *Usage) makeRoom(now time.Time) {
	if now.Sub(u.looked) < time.Minute {
		return
	}
	u.looked = now
	for c, last := range u.last {
		if now.Sub(last) > idleTimeout {
			delete(u.last, c)
			requests.DeleteLabelValues(c.String())
			seconds.DeleteLabelValues(c.String())
		}
	}
}
