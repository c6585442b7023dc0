package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	name    = "placement"
	workers = 4
	// retryInterval is how often an undecided namespace is tried without an event.
	retryInterval = time.Minute
	// batchDelay gathers the many events of objects and copies into one look.
	batchDelay = 200 * time.Millisecond
	// writeInterval is the shortest time between two writes of one status: while many
	// objects come and go, it would change with each.
	writeInterval = time.Second
	// maxWritten bounds what is remembered of writes.
	maxWritten = 4096
)

// Config is what the controller works with. The clients take the logical
// cluster from the context and act as the system.
type Config struct {
	Kube     kubernetes.Interface
	Client   versioned.Interface
	Metadata metadata.Interface
	// Dynamic reads the objects of a unit in a transition.
	Dynamic dynamic.Interface

	Namespaces       *controller.Informer[*corev1.Namespace]
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	LogicalClusters  *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	Policies         *controller.Informer[*placementv1alpha1.ClusterPlacementPolicy]
	// NamespacePolicies are the policies of namespaces.
	NamespacePolicies *controller.Informer[*placementv1alpha1.PlacementPolicy]
	Placements        *controller.Informer[*placementv1alpha1.Placement]
	Copies            *controller.Informer[*placementv1alpha1.Copy]
	// Kinds are those that are placed.
	Kinds workload.Source
	// Objects has the metadata of all kinds.
	Objects *controller.Metadata

	// MaxMoves is how many units move at a time, over all logical clusters, for a drain and
	// for all other causes each; default 20. MaxMovesEach is how many of them come to, or
	// leave, one physical cluster; default 10.
	MaxMoves, MaxMovesEach int
	// Next says which phase of a transition follows; default: transition.Next. The
	// simulation plants mistakes here.
	Next func(*placementv1alpha1.Transition, transition.State) transition.Step
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Controller brings placements on.
type Controller struct {
	Config
	queue    *controller.Controller[controller.Request]
	recorded *recorded
	// written holds when the status of a unit was written last.
	written *utilcache.LRUExpireCache
	// unsatisfied holds since when the policies want something else than the decision.
	unsatisfied *utilcache.LRUExpireCache
	moves       *moves
	// watched is since when silence counts, see placement.Snapshot.
	watched time.Time
}

// New makes the controller and subscribes it to the informers.
func New(config Config) *Controller {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Next == nil {
		config.Next = transition.Next
	}
	if config.MaxMoves == 0 {
		config.MaxMoves = defaultMaxMoves
	}
	if config.MaxMovesEach == 0 {
		config.MaxMovesEach = defaultMaxMovesEach
	}
	c := &Controller{
		Config: config, moves: newMoves(), recorded: newRecorded(config.Clock), written: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		watched:     config.Clock.Now().Add(placement.Silence),
		unsatisfied: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
	}
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
	// pending wait for a decision.
	pending []stamped
	// stale have not the targets that the decision wants. What rules the namespace is
	// first, then the Namespace: they go down before what they rule and hold.
	stale []stamped
}

// stamped is an object that admission stamps.
type stamped struct {
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
//	there      undecided  have one pending object decided, tell the others; again later
//	there      decided    have stale objects stamped, status; begin a transition if the
//	                      decision is not what is wanted any more
//	there      on its way have stale objects stamped, see what the transition waits for,
//	                      next phase, status
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
	if u.placement.Spec.Transition != nil && u.namespace.DeletionTimestamp == nil {
		return c.advance(ctx, u)
	}
	if err := c.restampAll(ctx, u.stale); err != nil {
		return controller.Result{}, err
	}
	v := c.verify(u)
	moving, result, err := c.reconsider(ctx, u, v)
	if err != nil || result.RequeueAfter < 0 {
		return controller.Result{}, err
	}
	written, err := c.writeStatus(ctx, u, v, moving)
	result = sooner(result, written)
	if len(u.stale) > 0 && result.RequeueAfter == 0 {
		result.RequeueAfter = retryInterval // if what was stamped is never seen
	}
	return result, err
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
	if !stamp.BelongsTo(u.placement, u.namespace.UID) {
		return nil, false // of an earlier namespace: admission replaces it
	}
	var rest []stamped
	for _, kind := range c.Kinds.Current().Kinds() {
		for _, o := range c.of(kind, u) {
			if !u.add(kind, o) {
				continue
			}
			s := stamped{resource: kind.GroupVersionResource(), kind: kind, object: o}
			if kind.Role == workload.Ruling {
				u.stale = append(u.stale, s)
			} else {
				rest = append(rest, s)
			}
		}
	}
	if u.placement.Spec.Decision == nil {
		u.pending, u.stale = rest, nil
	} else {
		u.stale = append(u.stale, rest...)
	}
	return u, true
}

// of are the objects of a kind in a unit: for Namespaces, its own.
func (c *Controller) of(kind workload.Kind, u *unit) []*metav1.PartialObjectMetadata {
	if kind.Role == workload.Container {
		return []*metav1.PartialObjectMetadata{{ObjectMeta: u.namespace.ObjectMeta}}
	}
	informer := c.Objects.For(kind.GroupVersionResource())
	if informer == nil {
		return nil
	}
	return informer.ListNamespace(u.key.Cluster, u.key.Namespace)
}

// add takes note of an object, and reports whether admission has to see it: it waits
// for a decision, or its stamp is not what the decision wants.
func (u *unit) add(kind workload.Kind, o *metav1.PartialObjectMetadata) bool {
	current := stamp.TargetsOf(o.Annotations)
	if len(current) > 0 {
		u.objects = append(u.objects, placement.Object{UID: o.UID, Targets: current})
	}
	if o.DeletionTimestamp != nil || u.namespace.DeletionTimestamp != nil || kind.Role == workload.Referenced {
		return false
	}
	decided := stamp.UnitOf(u.placement)
	if decided == nil {
		return kind.Role == workload.Placed && len(current) == 0 && stamp.GoesDown(kind, u.key.Cluster, o)
	}
	if kind.Role == workload.Container && o.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation] == "" {
		return true
	}
	return !stamp.Equal(current, stamp.Targets(kind, u.key.Cluster, o, stamp.Source{Unit: decided}))
}

// retry has admission decide with one pending object. If that decides, the
// change of the Placement brings the namespace back here for the others.
func (c *Controller) retry(ctx context.Context, u *unit) (controller.Result, error) {
	if err := c.restamp(ctx, oldest(u.pending)); err != nil {
		return controller.Result{}, err
	}
	if err := c.recordEvents(ctx, u); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: retryInterval}, nil
}

// oldest is the object that asked first.
func oldest(list []stamped) stamped {
	first := list[0]
	for _, o := range list[1:] {
		if o.object.CreationTimestamp.Before(&first.object.CreationTimestamp) {
			first = o
		}
	}
	return first
}

// restamp changes nothing by itself: the write passes admission, which stamps.
func (c *Controller) restamp(ctx context.Context, o stamped) error {
	_, err := c.Metadata.Resource(o.resource).Namespace(o.object.Namespace).
		Patch(ctx, o.object.Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("having %s %s stamped: %w", o.kind.Kind, o.object.Name, err)
	}
	return nil
}

// restampAll has objects stamped in their order.
func (c *Controller) restampAll(ctx context.Context, list []stamped) error {
	var errs []error
	for _, o := range list {
		errs = append(errs, c.restamp(ctx, o))
	}
	return errors.Join(errs...)
}

// sooner is the result that comes back first.
func sooner(a, b controller.Result) controller.Result {
	if a.RequeueAfter == 0 || b.RequeueAfter > 0 && b.RequeueAfter < a.RequeueAfter {
		return b
	}
	return a
}

// writeStatus writes what became of the decision, if that changed; moving is what is
// said about the transition, nil if there is nothing to say.
func (c *Controller) writeStatus(ctx context.Context, u *unit, v verdict, moving *metav1.Condition) (controller.Result, error) {
	now := c.Clock.Now()
	progress := placement.Progresses(u.objects, c.Copies.ListNamespace(u.key.Cluster, u.key.Namespace))
	status := placement.Status(u.placement, progress, now)
	later := controller.Result{RequeueAfter: v.again}
	if v.condition != nil {
		meta.SetStatusCondition(&status.Conditions, *v.condition)
	}
	if moving == nil {
		meta.RemoveStatusCondition(&status.Conditions, placementv1alpha1.ConditionMoving)
	} else {
		moving.ObservedGeneration, moving.LastTransitionTime = u.placement.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, *moving)
	}
	if placement.EqualStatus(u.placement.Status, status) {
		return later, nil
	}
	if at, ok := c.written.Get(u.key); ok {
		if left := at.(time.Time).Add(writeInterval).Sub(now); left > 0 {
			return controller.Result{RequeueAfter: left}, nil
		}
	}
	changed := u.placement.DeepCopy()
	changed.Status = status
	_, err := c.Client.PlacementV1alpha1().Placements(changed.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	c.written.Add(u.key, now, writeInterval)
	return later, c.recordVerdict(ctx, changed)
}
