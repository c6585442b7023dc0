package aggregation

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// Config is what aggregation needs.
type Config struct {
	// Loopback takes the logical cluster from the context; Kube is a client of it.
	Loopback *rest.Config
	Kube     kubernetes.Interface
	Egress   *egress.Guard
	PKI      *pki.PKI
	// Reserved are the groups that the server itself serves.
	Reserved sets.Set[string]
}

// Aggregation is what runs for the APIServices that name a Service.
type Aggregation struct {
	Config
	client   clientset.Interface
	proxies  *frontProxies
	informer *controller.Informer[*apiregistrationv1.APIService]
	queue    *controller.Controller[controller.Request]
	checks   sync.WaitGroup

	mu        sync.Mutex
	states    map[controller.Request]*state
	checking  map[logicalcluster.Name]sets.Set[controller.Request]
	delegated map[logicalcluster.Name]int
	sweeps    map[logicalcluster.Name]*sweeps
	listener  func(logicalcluster.Name, string)
	// stopped says that nothing new may begin.
	stopped bool
}

// state is what is known of an APIService beside the object. What it points to
// does not change.
type state struct {
	uid types.UID
	// hosts are where its server is, by the last check that found it.
	hosts []string
	// resources and openAPI (a hash; empty for none) are what the server said last,
	// fresh whether that was at the last check.
	resources []apidiscoveryv2.APIResourceDiscovery
	digest    string
	openAPI   string
	fresh     bool
	failures  int

	connection *connection
}

// connection is a pool of connections for one APIService.
type connection struct {
	key       string
	transport *http.Transport
}

// byService is the index of APIServices by the Service that they name.
const byService = "service"

// New makes it; nothing runs yet.
func New(config Config) (*Aggregation, error) {
	client, err := clientset.NewForConfig(config.Loopback)
	if err != nil {
		return nil, fmt.Errorf("making the client of APIServices: %w", err)
	}
	authority, err := config.PKI.FrontProxy()
	if err != nil {
		return nil, err
	}
	a := &Aggregation{
		Config: config, client: client,
		proxies:   newFrontProxies(config.Kube, authority, config.PKI.CAPEM),
		states:    map[controller.Request]*state{},
		checking:  map[logicalcluster.Name]sets.Set[controller.Request]{},
		delegated: map[logicalcluster.Name]int{},
		sweeps:    map[logicalcluster.Name]*sweeps{},
	}
	a.informer = controller.NewInformer("apiservices", &apiregistrationv1.APIService{},
		controller.Lists(client.ApiregistrationV1().APIServices()), controller.InformerOptions[*apiregistrationv1.APIService]{
			Transform: a.keep,
			Indexers: map[string]func(*apiregistrationv1.APIService) []string{byService: func(s *apiregistrationv1.APIService) []string {
				return []string{serviceKey(logicalcluster.From(s), s.Spec.Service.Namespace, s.Spec.Service.Name)}
			}},
		})
	a.queue = controller.New("apiservices", 2, a.reconcile)
	a.informer.Handle(a.changed)
	return a, nil
}

func serviceKey(c logicalcluster.Name, namespace, name string) string {
	return c.String() + "|" + namespace + "/" + name
}

// keep is the transform of the informer: local APIServices are somebody else's.
func (a *Aggregation) keep(obj runtime.Object) (*apiregistrationv1.APIService, error) {
	s, ok := obj.(*apiregistrationv1.APIService)
	if !ok {
		return nil, fmt.Errorf("%T is no APIService", obj)
	}
	if s.Spec.Service == nil || a.Reserved.Has(s.Spec.Group) {
		return nil, nil
	}
	s.ManagedFields = nil
	return s, nil
}

// changed checks what is new and what points elsewhere than before.
func (a *Aggregation) changed(old, now *apiregistrationv1.APIService) {
	switch {
	case now == nil:
		a.queue.Enqueue(controller.RequestFor(old))
		a.notify(logicalcluster.From(old), "")
	case old == nil || old.Generation != now.Generation || old.UID != now.UID || !sameSpec(old, now):
		a.queue.Enqueue(controller.RequestFor(now))
	}
}

// Follow checks an APIService again when something happens to its Service or to
// the endpoints of it.
func (a *Aggregation) Follow(services, endpoints *controller.Informer[*metav1.PartialObjectMetadata]) {
	follow := func(informer *controller.Informer[*metav1.PartialObjectMetadata], name func(*metav1.PartialObjectMetadata) string) {
		informer.Handle(func(old, now *metav1.PartialObjectMetadata) {
			obj := now
			if obj == nil {
				obj = old
			}
			for _, s := range a.informer.ByIndex(byService, serviceKey(logicalcluster.From(obj), obj.Namespace, name(obj))) {
				a.queue.Enqueue(controller.RequestFor(s))
			}
		})
	}
	follow(services, func(o *metav1.PartialObjectMetadata) string { return o.Name })
	follow(endpoints, func(o *metav1.PartialObjectMetadata) string { return o.Labels["kubernetes.io/service-name"] })
}

// Run checks until ctx ends.
func (a *Aggregation) Run(ctx context.Context) {
	var informer sync.WaitGroup
	informer.Go(func() { a.informer.Run(ctx) })
	a.queue.Run(ctx)
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.checks.Wait()
	informer.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.states {
		s.disconnect()
	}
}

// WaitForSync returns when all APIServices are known.
func (a *Aggregation) WaitForSync(ctx context.Context) error { return a.informer.WaitForSync(ctx) }

// find is the APIService that has a version of a group in a logical cluster.
func (a *Aggregation) find(c logicalcluster.Name, group, version string) *apiregistrationv1.APIService {
	s, _ := a.informer.Get(controller.Request{Cluster: c, Name: version + "." + group})
	return s
}

// list has the APIServices of a logical cluster, the oldest first.
func (a *Aggregation) list(c logicalcluster.Name) []*apiregistrationv1.APIService {
	all := a.informer.ListCluster(c)
	slices.SortFunc(all, func(x, y *apiregistrationv1.APIService) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), strings.Compare(x.Name, y.Name))
	})
	return all
}

// state is what is known of an APIService; nil if nothing.
func (a *Aggregation) state(s *apiregistrationv1.APIService) *state {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.states[controller.RequestFor(s)]
	if known == nil || known.uid != s.UID {
		return nil
	}
	copied := *known
	return &copied
}

// learn changes what is known of an APIService.
func (a *Aggregation) learn(s *apiregistrationv1.APIService, f func(*state)) {
	r := controller.RequestFor(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	if now, ok := a.informer.Get(r); !ok || now.UID != s.UID {
		return // nobody would forget it
	}
	known := a.states[r]
	if known == nil || known.uid != s.UID {
		if known != nil {
			known.disconnect()
		}
		known = &state{uid: s.UID}
		a.states[r] = known
	}
	f(known)
}

// forget drops what is known of an APIService that is gone.
func (a *Aggregation) forget(r controller.Request) {
	a.mu.Lock()
	if known := a.states[r]; known != nil {
		known.disconnect()
		delete(a.states, r)
	}
	a.mu.Unlock()
	if !a.informer.HasCluster(r.Cluster) {
		a.proxies.forget(r.Cluster)
	}
}

func (s *state) disconnect() {
	if s.connection != nil {
		s.connection.transport.CloseIdleConnections()
		s.connection = nil
	}
}
