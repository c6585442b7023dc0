package limits

import (
	"context"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Config is what a Counter works with.
type Config struct {
	// Etcd is read by Run, over a stream of watches of its own.
	Etcd *clientv3.Client
	// Find returns the object of a logical cluster, or nil, as this server knows it.
	Find func(context.Context, logicalcluster.Name) (*tenancy.LogicalCluster, error)
	// Bounds returns those of a physical cluster, as this server knows it; nil means that there are
	// none.
	Bounds func(ctx context.Context, physicalCluster string) corev1.ResourceList
	// Clock is the real one by default.
	Clock clock.WithTicker
}

// Counter knows what logical clusters use, and decides whether they may use more.
type Counter struct {
	Config
	counted chan struct{} // closed when everything was counted once
	once    sync.Once

	mu      sync.Mutex
	tally   *tally // nil until everything was counted
	recent  recent
	watches map[logicalcluster.Name]int64
}

// New makes a counter, which knows nothing until Run has counted.
func New(c Config) *Counter {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &Counter{Config: c, counted: make(chan struct{}), watches: map[logicalcluster.Name]int64{}}
}

// Counted is closed when everything was counted once.
func (c *Counter) Counted() <-chan struct{} { return c.counted }

// Admit implements storage.Gate: value is about to be stored under key.
func (c *Counter) Admit(ctx context.Context, key string, value []byte, exists bool) error {
	cluster, class, ok := parse(key)
	if !ok {
		return nil
	}
	w := write{by: authorOf(ctx), ending: endsSomething(ctx), class: class, after: stored(key, len(value))}
	c.mu.Lock()
	if exists && c.tally != nil {
		// One whose creation is not known yet counts as if it were empty.
		w.before = max(c.tally.size(key), 1)
	}
	c.mu.Unlock()
	// One that runs in this server acts as the system, with the view of its physical cluster.
	if _, viewed := scope.TargetFrom(ctx); cluster == scope.Root.String() && (viewed || w.by == bySyncer) {
		return c.admitReport(ctx, key, w)
	}
	return c.decide(ctx, cluster, w)
}

// Written implements storage.Gate: value is stored under key; nil was deleted.
func (c *Counter) Written(key string, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.tally == nil:
	case value == nil:
		c.tally.set(key, 0)
	default:
		c.tally.set(key, stored(key, len(value)))
	}
}

// stored is what an object takes.
func stored(key string, value int) int64 { return int64(len(key) + value) }

func (c *Counter) decide(ctx context.Context, cluster string, w write) error {
	if w.ending {
		return nil
	}
	c.mu.Lock()
	if c.tally == nil {
		c.mu.Unlock()
		return nil // the server says that it is not ready
	}
	use, written := c.tally.use(cluster), c.recent.of(c.Clock.Now(), cluster)
	c.mu.Unlock()
	if e := decide(w, use, written, c.limitsOf(ctx, logicalcluster.Name(cluster))); e != nil {
		return e.refusal(cluster)
	}
	return nil
}

// limitsOf are the default ones if nobody knows better.
func (c *Counter) limitsOf(ctx context.Context, cluster logicalcluster.Name) limits {
	if cluster == scope.Root {
		return unlimited()
	}
	found, err := c.Find(ctx, cluster)
	if err != nil || found == nil {
		return of(tenancy.LogicalClusterLimits{})
	}
	return of(found.Spec.Limits)
}

// authorOf is who writes; what has no user is the server's own.
func authorOf(ctx context.Context) author {
	u, ok := request.UserFrom(ctx)
	if !ok || auth.IsMaster(u) {
		return bySystem
	}
	if _, syncs := auth.SyncerOf(u); syncs {
		return bySyncer
	}
	return byUser
}

// endsSomething says that the request deletes: what it writes are deletion timestamps.
func endsSomething(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && (info.Verb == "delete" || info.Verb == "deletecollection" || info.Subresource == "eviction")
}

// Creates looks at creates behind next. A dry run that could not store one object more is refused:
// what is not stored does not come to Admit. Who makes an object of which nothing can be recorded is warned.
func (c *Counter) Creates(next admission.Interface) admission.Interface {
	return creates{Interface: next, counter: c}
}

type creates struct {
	admission.Interface
	counter *Counter
}

var (
	_ admission.MutationInterface   = creates{}
	_ admission.ValidationInterface = creates{}
)

// Admit implements admission.MutationInterface.
func (c creates) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if m, ok := c.Interface.(admission.MutationInterface); ok && m.Handles(a.GetOperation()) {
		return m.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (c creates) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if v, ok := c.Interface.(admission.ValidationInterface); ok && v.Handles(a.GetOperation()) {
		if err := v.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok || a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	w := write{by: authorOf(ctx), class: classOf(inEtcd(a)), after: 1}
	if a.IsDryRun() {
		if err := c.counter.decide(ctx, cluster.String(), w); err != nil {
			return err
		}
	}
	if w.by == byUser && w.class == objects {
		c.counter.warn(ctx, cluster)
	}
	return nil
}

// Handles implements admission.Interface: creates of everything.
func (c creates) Handles(o admission.Operation) bool {
	return o == admission.Create || c.Interface.Handles(o)
}

// inEtcd is what the resource of a request is called in etcd.
func inEtcd(a admission.Attributes) string {
	switch r := a.GetResource().GroupResource(); {
	case r.Resource == "customresourcedefinitions" && r.Group == "apiextensions.k8s.io":
		return r.Group + "/" + r.Resource
	case r.Resource == "endpoints" && r.Group == "":
		return "services/endpoints"
	default:
		return r.Resource
	}
}
