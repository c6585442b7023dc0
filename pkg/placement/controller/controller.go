package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/rollout"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/placement/units"
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
	// Release says which of the replicas that are kept are given up; default:
	// stamp.Released.
	Release func(current placementv1alpha1.Targets, wish int32, available, reached map[string]int32) placementv1alpha1.Targets
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
	// undivided holds since when the policies divide replicas otherwise than the decision.
	undivided *utilcache.LRUExpireCache
	// followed holds since when what only follows others awaits pods, by UID.
	followed *utilcache.LRUExpireCache
	// looked holds what was said of units that may return.
	looked *utilcache.LRUExpireCache
	moves  *moves
	// asking has an entry while a unit has its turn, see turn.
	asking chan struct{}
	// contents holds what was read of units that move.
	contents *utilcache.LRUExpireCache
	// weighed holds what the objects of units request.
	weighed *utilcache.LRUExpireCache
	// later follows the kinds that come.
	later func(context.Context)
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
	if config.Release == nil {
		config.Release = stamp.Released
	}
	if config.MaxMoves == 0 {
		config.MaxMoves = defaultMaxMoves
	}
	if config.MaxMovesEach == 0 {
		config.MaxMovesEach = defaultMaxMovesEach
	}
	c := &Controller{
		Config: config, moves: newMoves(), asking: make(chan struct{}, 1), recorded: newRecorded(config.Clock), written: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		watched:     config.Clock.Now().Add(placement.Silence),
		unsatisfied: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		undivided:   utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		contents:    utilcache.NewLRUExpireCacheWithClock(maxRemembered, config.Clock),
		weighed:     utilcache.NewLRUExpireCacheWithClock(maxRemembered, config.Clock),
		followed:    utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		looked:      utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
	}
	c.queue = controller.New(name, workers, c.reconcile)
	c.subscribe()
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.later(ctx) })
	c.queue.Run(ctx)
}

// unit is all that is known of one unit of a namespace.
type unit struct {
	key       controller.Request
	namespace *corev1.Namespace
	placement *placementv1alpha1.Placement
	split
	objects []placement.Object
	// outside says that an object of the unit has a copy where it is not to be.
	outside bool
	// populated says that a placed object is in the unit.
	populated bool
	// also says of objects which other policies select them.
	also []string
	// unplaced is for each unit without a placement its oldest object.
	unplaced map[string]stamped
	// unsure says that it is not known of some object to which units it belongs.
	unsure bool
	// pending wait for a decision.
	pending []stamped
	// kept says of which objects replicas are kept until others are available.
	kept []string
	// staged says that a change of an object of the unit, or of a ConfigMap or Secret, has not
	// reached all waves, and step what follows.
	staged bool
	step   rollout.Step
	// awaited is what the unit waits to return to.
	awaited *placementv1alpha1.Awaited
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

// reconcile looks at a Placement.
//
//	namespace  placement  what is left to do
//	gone       any        nothing: its records go with it
//	going      decided    status
//	there      none       nothing: admission makes it, if an object of the unit comes, or the
//	                      look at another unit of the namespace has found one
//	there      any        delete it if the unit has ended
//	there      undecided  have one pending object decided, tell the others; again later.
//	                      What follows others is that one only if it has waited for pods
//	there      decided    have stale objects stamped, status; begin a transition if the
//	                      decision is not what is wanted any more, or preferences
//	                      want it elsewhere, see goBack
//	there      on its way have stale objects stamped, see what the transition waits for,
//	                      next phase, status
func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	u, ok, err := c.read(ctx, key)
	if err != nil || !ok {
		return controller.Result{}, err
	}
	if u.namespace.DeletionTimestamp == nil {
		if u.needless() {
			return controller.Result{}, c.end(ctx, u)
		}
		for _, unit := range slices.Sorted(maps.Keys(u.unplaced)) {
			if err := c.restamp(ctx, u.unplaced[unit]); err != nil {
				return controller.Result{}, err
			}
		}
	}
	if u.placement.Spec.Decision == nil {
		switch {
		case u.namespace.DeletionTimestamp != nil:
			return controller.Result{}, nil
		case len(u.pending) == 0 && u.unsure:
			return controller.Result{RequeueAfter: moveInterval}, nil
		case len(u.pending) == 0:
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
	if moving == nil {
		var back controller.Result
		if moving, back, err = c.goBack(ctx, u, v); err != nil || back.RequeueAfter < 0 {
			return controller.Result{}, err
		}
		result = sooner(result, back)
	}
	divided, err := c.share(ctx, u, v)
	if err != nil || divided.RequeueAfter < 0 {
		return controller.Result{}, err
	}
	result = sooner(result, divided)
	staged, err := c.rollOut(ctx, u)
	if err != nil {
		return controller.Result{}, err
	}
	result = sooner(result, staged)
	written, err := c.writeStatus(ctx, u, v, moving)
	result = sooner(result, written)
	if len(u.stale) > 0 && result.RequeueAfter == 0 {
		result.RequeueAfter = retryInterval // if what was stamped is never seen
	}
	if u.unsure {
		result = sooner(result, controller.Result{RequeueAfter: moveInterval})
	}
	return result, err
}

// read gathers a unit from the informers; ok is false if there is nothing to do
// for it.
func (c *Controller) read(ctx context.Context, key controller.Request) (*unit, bool, error) {
	u := &unit{key: key, unplaced: map[string]stamped{}}
	var ok bool
	if u.placement, ok = c.Placements.Get(key); !ok {
		return nil, false, nil
	}
	if u.namespace, ok = c.Namespaces.Get(controller.Request{Cluster: key.Cluster, Name: key.Namespace}); !ok {
		return nil, false, nil
	}
	if !stamp.BelongsTo(u.placement, u.namespace.UID) {
		return nil, false, nil // of an earlier namespace: admission replaces it
	}
	var err error
	if u.split, err = c.divide(ctx, u.placement, u.namespace, u); err != nil {
		return nil, false, err
	}
	var rest []stamped
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		for _, o := range c.of(kind, u) {
			if !u.add(kind, o) {
				continue
			}
			rest = append(rest, stamped{resource: kind.GroupVersionResource(), kind: kind, object: o})
		}
	}
	sortStamped(rest)
	if u.placement.Spec.Decision == nil {
		u.pending = rest
	} else {
		u.stale = rest
	}
	return u, true, nil
}

// of are the objects of a kind in a unit: for Namespaces, its own.
func (c *Controller) of(kind workload.Kind, u *unit) []*metav1.PartialObjectMetadata {
	if kind.Role == workload.Container {
		return []*metav1.PartialObjectMetadata{{ObjectMeta: u.namespace.ObjectMeta}}
	}
	informer := placed.Of(c.Objects, kind)
	if informer == nil {
		return nil
	}
	list := informer.ListNamespace(u.key.Cluster, u.key.Namespace)
	if !workload.Places(c.Kinds, u.key.Cluster, kind) {
		list = slices.DeleteFunc(list, func(o *metav1.PartialObjectMetadata) bool { return !stamp.HasTargets(o) })
	}
	return list
}

// add takes note of an object, and reports whether admission has to see it: it waits
// for a decision, or its stamp is not what the decision wants.
func (u *unit) add(kind workload.Kind, o *metav1.PartialObjectMetadata) bool {
	names, known := u.unitsOf(kind, o)
	if !known {
		u.unsure = true // the watch cache that the namespace was divided by is behind
		return false
	}
	if u.divided() {
		u.sort(kind, o, names)
		if !u.mine(names) || u.waits(kind, o, names) {
			return false // what waits comes in when the transition is over
		}
	}
	u.staged = u.staged || stamp.Staged(o)
	current, decided := stamp.TargetsOf(o.Annotations), u.merge(names)
	if len(current) > 0 {
		u.objects = append(u.objects, placement.Object{UID: o.UID, Targets: current})
		u.outside = u.outside || decided.Outside(o)
	}
	if o.DeletionTimestamp != nil || u.namespace.DeletionTimestamp != nil || kind.Role == workload.Referenced {
		return false
	}
	if decided == nil {
		// What runs already has a unit that it came into begin there.
		return kind.Role == workload.Placed && (len(current) == 0 || u.divided() && !stamp.Mirrored(o)) && stamp.GoesDown(kind, u.key.Cluster, o)
	}
	if kind.Role == workload.Container && o.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation] == "" {
		return true
	}
	return u.unrecorded(kind, o, names) || !stamp.Equal(current, stamp.Targets(kind, u.key.Cluster, o, stamp.Source{Unit: decided, Division: u.division(names), Overrides: u.overrides(names)}))
}

// sort takes note of an object of a divided namespace.
func (u *unit) sort(kind workload.Kind, o *metav1.PartialObjectMetadata, names []string) {
	if kind.Role != workload.Placed || stamp.Mirrored(o) || !stamp.GoesDown(kind, u.key.Cluster, o) {
		return
	}
	u.populated = u.populated || u.mine(names)
	if o.DeletionTimestamp != nil {
		return
	}
	s := stamped{resource: kind.GroupVersionResource(), kind: kind, object: o}
	if len(names) == 1 && !u.has(names[0]) { // what is in several units is decided by what it is about
		if was, ok := u.unplaced[names[0]]; !ok || s.before(was) {
			u.unplaced[names[0]] = s
		}
	}
	if _, also := units.Selected(u.selectors, kind, o); len(also) > 0 && !kind.Follows() && u.mine(names) {
		u.also = append(u.also, fmt.Sprintf("%s %s is selected by %s, too", kind.Kind, o.Name, strings.Join(also, ", ")))
	}
}

// retry has admission decide with one pending object. If that decides, the
// change of the Placement brings the namespace back here for the others. What follows others
// decides only if there is nothing else, and nothing else has come for a moment.
func (c *Controller) retry(ctx context.Context, u *unit) (controller.Result, error) {
	asks := asker(u.pending)
	if left := c.awaitsPods(asks); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	if err := c.restamp(ctx, asks); err != nil {
		return controller.Result{}, err
	}
	if err := c.recordEvents(ctx, u); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: retryInterval}, nil
}

// awaitsPods is for how much longer an object that asks first leaves its unit undecided.
func (c *Controller) awaitsPods(o stamped) time.Duration {
	if !o.kind.Follows() {
		return 0
	}
	now := c.Clock.Now()
	seen, ok := c.followed.Get(o.object.UID)
	if !ok {
		seen = now
		c.followed.Add(o.object.UID, now, time.Minute)
	}
	return placement.AwaitsPods(o.object.CreationTimestamp.Time, seen.(time.Time), now)
}

// asker is the object that asks for a decision.
func asker(list []stamped) stamped {
	out := list[0]
	for _, o := range list[1:] {
		if o.before(out) {
			out = o
		}
	}
	return out
}

// before says that an object asks rather than another one: it makes pods, and the other only
// follows such, or it is older.
func (s stamped) before(other stamped) bool {
	if s.kind.Follows() != other.kind.Follows() {
		return other.kind.Follows()
	}
	return s.object.CreationTimestamp.Before(&other.object.CreationTimestamp)
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

// sortStamped puts what rules the namespace first, then the Namespace, then autoscalers: that they
// wait somewhere says that what they scale is not scaled there yet.
func sortStamped(list []stamped) {
	rank := func(s stamped) int {
		switch {
		case s.kind.Role == workload.Ruling:
			return 0
		case s.kind.Role == workload.Container:
			return 1
		case stamp.IsAutoscaler(s.kind):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(list, func(a, b stamped) int { return cmp.Compare(rank(a), rank(b)) })
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
	status.SchedulerName, status.Awaited = v.Scheduler, u.awaited
	var err error
	if status.Requests, err = c.weigh(ctx, u); err != nil {
		return controller.Result{}, err
	}
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
	if contested := u.contested(); contested == nil {
		meta.RemoveStatusCondition(&status.Conditions, placementv1alpha1.ConditionContested)
	} else {
		contested.ObservedGeneration, contested.LastTransitionTime = u.placement.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, *contested)
	}
	if divided := u.dividedCondition(); divided == nil {
		meta.RemoveStatusCondition(&status.Conditions, placementv1alpha1.ConditionDivided)
	} else if u.placement.Spec.Transition == nil { // it is not looked at in a transition
		divided.ObservedGeneration, divided.LastTransitionTime = u.placement.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, *divided)
	}
	if rolledOut := u.rolledOut(&status); rolledOut == nil {
		meta.RemoveStatusCondition(&status.Conditions, placementv1alpha1.ConditionRolledOut)
	} else {
		rolledOut.ObservedGeneration, rolledOut.LastTransitionTime = u.placement.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, *rolledOut)
	}
	if placement.EqualStatus(u.placement.Status, status) {
		return later, nil
	}
	if at, ok := c.written.Get(u.key); ok && !turned(u.placement.Status, status) {
		if left := at.(time.Time).Add(writeInterval).Sub(now); left > 0 {
			return controller.Result{RequeueAfter: left}, nil
		}
	}
	changed := u.placement.DeepCopy()
	changed.Status = status
	_, err = c.Client.PlacementV1alpha1().Placements(changed.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	c.written.Add(u.key, now, writeInterval)
	return later, errors.Join(c.recordVerdict(ctx, changed), c.recordStop(ctx, changed))
}
