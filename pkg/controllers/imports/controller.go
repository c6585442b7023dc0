package imports

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

const (
	name    = "imports"
	workers = 4
	// batchDelay is how long events are gathered before a namespace is read: rollouts and moves
	// write several within it.
	batchDelay = 200 * time.Millisecond
)

var (
	services       = corev1.SchemeGroupVersion.WithResource("services")
	pods           = corev1.SchemeGroupVersion.WithResource("pods")
	endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	serviceImports = placementv1alpha1.SchemeGroupVersion.WithResource("serviceimports")
	podImports     = placementv1alpha1.SchemeGroupVersion.WithResource("podimports")
)

// sources are what imports are made of.
var sources, made = []schema.GroupVersionResource{services, pods, endpointSlices}, []schema.GroupVersionResource{serviceImports, podImports}

// Config is what the controller works with. The clients act in the logical cluster of the
// context, as the system.
type Config struct {
	Kube   kubernetes.Interface
	Client versioned.Interface
	// Objects must have services, pods, endpointslices, serviceimports and podimports.
	Objects          *controller.Metadata
	Namespaces       *controller.Informer[*corev1.Namespace]
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
}

// Controller keeps the ServiceImports and PodImports of namespaces.
type Controller struct {
	Config
	// queue has namespaces: the name of a request is empty.
	queue *controller.Controller[controller.Request]
	// present is where logical clusters are.
	present presence
	// members are the physical clusters in networks, for the handler of their events; fleet is what
	// is decided with: it is never changed, but replaced.
	members Fleet
	fleet   atomic.Pointer[Fleet]
}

// New makes the controller and subscribes it to the informers.
func New(config Config) *Controller {
	c := &Controller{Config: config, present: presence{counts: map[logicalcluster.Name]map[string]int{}}, members: Fleet{}}
	c.fleet.Store(&Fleet{})
	c.queue = controller.New(name, workers, c.reconcile)
	for _, gvr := range sources {
		c.Objects.For(gvr).Handle(func(old, obj *metav1.PartialObjectMetadata) {
			if obj == nil {
				obj = old
			}
			c.changed(logicalcluster.From(obj), obj.Namespace, gvr == services || gvr == endpointSlices && writtenByUser(obj))
		})
	}
	for _, gvr := range made {
		c.Objects.For(gvr).Handle(func(old, obj *metav1.PartialObjectMetadata) {
			switch { // nobody but the server writes them
			case obj == nil:
				c.changed(logicalcluster.From(old), old.Namespace, false)
			case old == nil: // what changed before this was known to be there would not have found it
				c.changed(logicalcluster.From(obj), obj.Namespace, false)
			}
		})
	}
	c.Namespaces.Handle(c.namespaceChanged)
	c.PhysicalClusters.Handle(c.physicalClusterChanged)
	return c
}

// Run works until ctx is done. Nothing is decided before the informers are in: what is not
// listed yet must not look like gone.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	for _, gvr := range slices.Concat(sources, made) {
		if c.Objects.For(gvr).WaitForSync(ctx) != nil {
			return
		}
	}
	if c.Namespaces.WaitForSync(ctx) != nil || c.PhysicalClusters.WaitForSync(ctx) != nil {
		return
	}
	c.queue.Run(ctx)
}

// writtenByUser says that an EndpointSlice may have endpoints that a user wrote: it is not that of a
// Service with a selector, and was not made on a physical cluster.
func writtenByUser(slice metav1.Object) bool {
	return slice.GetLabels()[discoveryv1.LabelManagedBy] != sliceController && !stamp.Mirrored(slice)
}

// sliceController makes the EndpointSlices of Services with a selector.
const sliceController = "endpointslice-controller.k8s.io"

// changed looks at a namespace if something in it may be imported, or is. others says that this may
// be a Service that needs no network.
func (c *Controller) changed(cluster logicalcluster.Name, namespace string, others bool) {
	fleet, present := *c.fleet.Load(), c.present.of(cluster)
	key := controller.Request{Cluster: cluster, Namespace: namespace}
	has := func(gvr schema.GroupVersionResource) bool { return c.has(gvr, key) }
	if len(fleet) > 1 && fleet.Joined(present) || others && c.mayHaveOthers(cluster, namespace, present) || slices.ContainsFunc(made, has) {
		c.queue.EnqueueAfter(key, batchDelay)
	}
}

// has says that there may be objects of a resource in a namespace: those that the watch cache has already,
// and the informer does not, have it looked at again when they come.
func (c *Controller) has(gvr schema.GroupVersionResource, key controller.Request) bool {
	return c.Objects.For(gvr).HasNamespace(key.Cluster, key.Namespace)
}

// mayHaveOthers says that a Service of a namespace which needs no network may be imported: there is another
// physical cluster, or endpoints that a user wrote.
func (c *Controller) mayHaveOthers(cluster logicalcluster.Name, namespace string, present []string) bool {
	if len(present) != 1 {
		return len(present) > 1
	}
	return slices.ContainsFunc(c.Objects.For(endpointSlices).ListNamespace(cluster, namespace), func(s *metav1.PartialObjectMetadata) bool { return writtenByUser(s) })
}

// namespaceChanged: where a logical cluster is decides who imports all of its Services and pods.
func (c *Controller) namespaceChanged(old, obj *corev1.Namespace) {
	var before, now placementv1alpha1.Targets
	cluster := logicalcluster.Name("")
	if old != nil {
		before, cluster = stamp.TargetsOf(old.Annotations), logicalcluster.From(old)
	}
	if obj != nil {
		now, cluster = stamp.TargetsOf(obj.Annotations), logicalcluster.From(obj)
	}
	if !c.present.move(cluster, before, now) {
		if old != nil && obj != nil && !maps.Equal(old.Labels, obj.Labels) {
			c.changed(cluster, obj.Name, false)
		}
		return
	}
	for _, namespace := range c.Namespaces.ListCluster(cluster) {
		c.changed(cluster, namespace.Name, true)
	}
}

// physicalClusterChanged: a network has more or fewer members, or one of them has other ranges,
// is silent, or is back.
func (c *Controller) physicalClusterChanged(old, obj *fleetv1alpha1.PhysicalCluster) {
	var before, now Member
	if old != nil {
		before = memberOf(old)
		delete(c.members, old.Name)
	}
	if obj != nil {
		if now = memberOf(obj); now.Network != "" {
			c.members[obj.Name] = now
		}
	}
	if before.same(now) {
		return
	}
	fleet := maps.Clone(c.members).Settled()
	c.fleet.Store(&fleet)
	for _, namespace := range c.Namespaces.List() {
		c.changed(logicalcluster.From(namespace), namespace.Name, false)
	}
}

func memberOf(pc *fleetv1alpha1.PhysicalCluster) Member {
	m := Member{Network: pc.Spec.Pods.Network}
	if m.Network == "" {
		return m
	}
	m.Silent = !apimeta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionReady)
	m.Ranges = fleetv1alpha1.Prefixes(pc.PodNetwork().PodCIDRs)
	m.Known, m.Named = len(m.Ranges) > 0, len(pc.Spec.Tenancy.Network.PodCIDRs) > 0
	return m
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	w := where{present: c.present.of(key.Cluster), fleet: *c.fleet.Load()}
	if w.fleet.Joined(w.present) {
		var err error
		if w.pods, err = c.podsIn(ctx, key.Namespace); err != nil {
			return controller.Result{}, err
		}
	}
	var errs []error
	behind := false // another server has written what the watch cache does not show yet
	for _, keep := range []func(context.Context, controller.Request, where) (bool, error){c.keepServices, c.keepPods} {
		b, err := keep(ctx, key, w)
		behind, errs = behind || b, append(errs, err)
	}
	if behind {
		return controller.Result{RequeueAfter: time.Second}, errors.Join(errs...)
	}
	return controller.Result{}, errors.Join(errs...)
}
