package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	name    = "placement"
	workers = 4
	// retryAfter is how often an undecided namespace is tried without an event.
	retryAfter = time.Minute
	// settleAfter gathers the many events of objects and copies into one look.
	settleAfter = 200 * time.Millisecond
	// writeAgain is the shortest time between two writes of one status: while many
	// objects come and go, it would change with each.
	writeAgain = time.Second
	// maxWritten bounds what is remembered of writes.
	maxWritten = 4096
)

// Config is what the controller works with. The clients take the logical
// cluster from the context and act as the system.
type Config struct {
	Kube     kubernetes.Interface
	Client   versioned.Interface
	Metadata metadata.Interface

	Namespaces       *controller.Informer[*corev1.Namespace]
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	Policies         *controller.Informer[*placementv1alpha1.ClusterPlacementPolicy]
	Placements       *controller.Informer[*placementv1alpha1.Placement]
	Copies           *controller.Informer[*placementv1alpha1.Copy]
	// Objects has the metadata of all kinds of pkg/workload.
	Objects *controller.Metadata

	// ControlPlane returns the id of the control plane.
	ControlPlane func(context.Context) (string, error)
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Controller brings placements on.
type Controller struct {
	Config
	queue *controller.Controller[controller.Request]
	told  *told
	// written holds when the status of a unit was written last.
	written *utilcache.LRUExpireCache
}

// New makes the controller and subscribes it to the informers.
func New(config Config) *Controller {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	c := &Controller{Config: config, told: newTold(config.Clock), written: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock)}
	c.queue = controller.New(name, workers, c.reconcile)
	c.subscribe()
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

// unit is all that is known of one namespace.
type unit struct {
	key       controller.Request
	namespace *corev1.Namespace
	placement *placementv1alpha1.Placement
	objects   []placement.Object
	pending   []pending
}

// pending is an object of a placed kind without targets.
type pending struct {
	resource schema.GroupVersionResource
	kind     workload.Kind
	object   *metav1.PartialObjectMetadata
}

// reconcile looks at the namespace of a Placement.
//
//	namespace  placement  what is left to do
//	gone       any        nothing: its records go with it
//	going      decided    status
//	there      none       nothing: admission makes it
//	there      undecided  poke one pending object, tell the others; again later
//	there      decided    stamp the Namespace, poke pending objects, status
func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	u, ok := c.read(key)
	if !ok {
		return controller.Result{}, nil
	}
	if u.placement.Spec.Decision == nil {
		if u.namespace.DeletionTimestamp != nil || len(u.pending) == 0 {
			return controller.Result{}, nil
		}
		return c.retry(ctx, u)
	}
	if u.namespace.DeletionTimestamp == nil {
		if err := c.stampNamespace(ctx, u); err != nil {
			return controller.Result{}, err
		}
		var errs []error
		for _, p := range u.pending {
			errs = append(errs, c.poke(ctx, p))
		}
		if err := errors.Join(errs...); err != nil {
			return controller.Result{}, err
		}
	}
	return c.writeStatus(ctx, u)
}

// read gathers a unit from the informers; ok is false if there is nothing to do
// for it.
func (c *Controller) read(key controller.Request) (*unit, bool) {
	key.Name = placementv1alpha1.NamespaceUnit
	u := &unit{key: key}
	var ok bool
	if u.placement, ok = c.Placements.Get(key); !ok {
		return nil, false
	}
	if u.namespace, ok = c.Namespaces.Get(controller.Request{Cluster: key.Cluster, Name: key.Namespace}); !ok {
		return nil, false
	}
	if owner := metav1.GetControllerOfNoCopy(u.placement); owner != nil && owner.UID != u.namespace.UID {
		return nil, false // of an earlier namespace: admission replaces it
	}
	u.add(&u.namespace.ObjectMeta)
	for _, kind := range workload.Kinds() {
		informer := c.Objects.For(kind.GroupVersionResource())
		if informer == nil || kind.Role == workload.Container {
			continue
		}
		for _, o := range informer.ListNamespace(key.Cluster, key.Namespace) {
			if !u.add(&o.ObjectMeta) && kind.Role == workload.Placed && o.DeletionTimestamp == nil &&
				!stamp.OfServer(kind.GroupResource(), o.Namespace, o.Name) {
				u.pending = append(u.pending, pending{resource: kind.GroupVersionResource(), kind: kind, object: o})
			}
		}
	}
	return u, true
}

// add takes note of an object with targets.
func (u *unit) add(o *metav1.ObjectMeta) bool {
	targets := stamp.TargetsOf(o.Annotations)
	if len(targets) == 0 {
		return false
	}
	u.objects = append(u.objects, placement.Object{UID: o.UID, Targets: targets})
	return true
}

// retry has admission decide with one pending object. If that decides, the
// change of the Placement brings the namespace back here for the others.
func (c *Controller) retry(ctx context.Context, u *unit) (controller.Result, error) {
	if err := c.poke(ctx, oldest(u.pending)); err != nil {
		return controller.Result{}, err
	}
	if err := c.tell(ctx, u); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: retryAfter}, nil
}

// oldest is the object that asked first.
func oldest(list []pending) pending {
	first := list[0]
	for _, p := range list[1:] {
		if p.object.CreationTimestamp.Before(&first.object.CreationTimestamp) {
			first = p
		}
	}
	return first
}

// poke writes nothing: the write passes admission, which stamps.
func (c *Controller) poke(ctx context.Context, p pending) error {
	_, err := c.Metadata.Resource(p.resource).Namespace(p.object.Namespace).
		Patch(ctx, p.object.Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("having %s %s stamped: %w", p.kind.Kind, p.object.Name, err)
	}
	return nil
}

func (c *Controller) stampNamespace(ctx context.Context, u *unit) error {
	id, err := c.ControlPlane(ctx)
	if err != nil {
		return fmt.Errorf("reading the id of the control plane: %w", err)
	}
	var clusters []string
	for _, d := range u.placement.Spec.Decision.Clusters {
		clusters = append(clusters, d.Name)
	}
	patch := stamp.Namespace(u.namespace, u.key.Cluster, id, clusters)
	if patch == nil {
		return nil
	}
	_, err = c.Kube.CoreV1().Namespaces().Patch(ctx, u.namespace.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("stamping the namespace: %w", err)
	}
	return nil
}

func (c *Controller) writeStatus(ctx context.Context, u *unit) (controller.Result, error) {
	now := c.Clock.Now()
	progress := placement.Progresses(u.objects, c.Copies.ListNamespace(u.key.Cluster, u.key.Namespace))
	status := placement.Status(u.placement, progress, now)
	if placement.EqualStatus(u.placement.Status, status) {
		return controller.Result{}, nil
	}
	if at, ok := c.written.Get(u.key); ok {
		if left := at.(time.Time).Add(writeAgain).Sub(now); left > 0 {
			return controller.Result{RequeueAfter: left}, nil
		}
	}
	changed := u.placement.DeepCopy()
	changed.Status = status
	_, err := c.Client.PlacementV1alpha1().Placements(changed.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	c.written.Add(u.key, now, writeAgain)
	return controller.Result{}, nil
}
