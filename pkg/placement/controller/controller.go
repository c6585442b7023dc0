package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// maxStamped is how many objects of a unit one look has stamped, which takes a second.
	maxStamped = 256
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
	// Placements holds all Placements, with Indexers.
	Placements *controller.Informer[*placementv1alpha1.Placement]
	Copies     *controller.Informer[*placementv1alpha1.Copy]
	// Kinds are those that are placed.
	Kinds workload.Source
	// Objects has the metadata of all kinds.
	Objects *controller.Metadata

	// Answer is what a physical cluster answers now when it is asked whether it is there, see
	// reach.Asker: as long as it is not known, the error is what was answered before. nil: none is asked.
	Answer func(ctx context.Context, name string) (known bool, err error)

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
	// Standstill has for how long the process stood still; default: it never does.
	Standstill *controller.Standstill
}

// Controller brings placements on.
type Controller struct {
	Config
	queue    *controller.Controller[controller.Request]
	recorded *recorded
	// written holds when the status of a unit was written last.
	written *utilcache.LRUExpireCache
	// unsatisfied holds since when the policies want something else than the decision.
	unsatisfied onset
	// undivided holds since when the policies divide replicas otherwise than the decision.
	undivided onset
	// stampedTo holds up to where the objects of units were stamped that have more than one look may.
	stampedTo *utilcache.LRUExpireCache
	// followed holds since when what only follows others awaits pods, by UID.
	followed *utilcache.LRUExpireCache
	// looked holds what was said of units that may return.
	looked *utilcache.LRUExpireCache
	moves  *moves
	// reviews has one unit at a time reviewed that may begin to move.
	reviews *semaphore.Weighted
	// contents holds what was read of units that move.
	contents *utilcache.LRUExpireCache
	// weighed holds what the objects of units request.
	weighed *utilcache.LRUExpireCache
	// retries paces how often the undecided are tried again.
	retries *retries
	// cutOff is whether silence counts for nothing, for the handler of events of physical clusters.
	cutOff bool
	// later follows the kinds that come.
	later func(context.Context)
	// watched is since when silence counts, see placement.Snapshot, and watchedSince.
	watched time.Time
}

// New makes the controller and subscribes it to the informers.
func New(config Config) *Controller {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Standstill == nil {
		config.Standstill = controller.NewStandstill(config.Clock)
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
		Config: config, moves: newMoves(), retries: newRetries(), reviews: semaphore.NewWeighted(1), recorded: newRecorded(config.Clock), written: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		watched:   config.Clock.Now().Add(placement.Silence),
		contents:  utilcache.NewLRUExpireCacheWithClock(maxRemembered, config.Clock),
		weighed:   utilcache.NewLRUExpireCacheWithClock(maxRemembered, config.Clock),
		followed:  utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		looked:    utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
		stampedTo: utilcache.NewLRUExpireCacheWithClock(maxWritten, config.Clock),
	}
	c.queue = newQueue(c.moves, workers, c.reconcile)
	c.moves.standstill = config.Standstill
	c.subscribe()
	return c
}

// newQueue makes the queue of units, in which those that move do not wait behind all that do not.
func newQueue(m *moves, workers int, reconcile func(context.Context, controller.Request) (controller.Result, error)) *controller.Controller[controller.Request] {
	return controller.New(name, workers, reconcile, controller.WithPriority(m.moving))
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.later(ctx) })
	c.queue.Run(ctx)
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
	tried := false
	defer func() {
		if !tried {
			c.retries.drop(key)
		}
	}()
	u, ok, err := c.read(ctx, key)
	switch {
	case err != nil:
		return controller.Result{}, err
	case !ok:
		c.unsatisfied.end(key)
		c.undivided.end(key)
		return controller.Result{}, nil
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
		tried = true
		return c.retry(ctx, u)
	}
	if u.placement.Spec.Transition != nil && u.namespace.DeletionTimestamp == nil {
		return c.advance(ctx, u)
	}
	more, err := c.restampSome(ctx, round{u.key, "decided"}, u.stale)
	if err != nil {
		return controller.Result{}, err
	}
	v := c.verify(u)
	moving, result, err := c.reconsider(ctx, u, v)
	if err != nil || result.RequeueAfter < 0 {
		return controller.Result{}, err
	}
	result = sooner(result, more)
	if moving == nil {
		var back controller.Result
		if moving, back, err = c.goBack(ctx, u, v); err != nil || back.RequeueAfter < 0 {
			return controller.Result{}, err
		}
		result = sooner(result, back)
	}
	if moving != nil {
		result = sooner(result, c.untilDeadline(u))
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
	status := placement.Status(u.placement, progress, c.awaitsVolumes(u), now)
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
