package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// reportInterval is how often the status is compared with what there is, by default.
	reportInterval = 10 * time.Second
	// settle bounds how often a change below is reported.
	settle = time.Second
	// questionTimeout bounds one question to the physical cluster about itself.
	questionTimeout = 5 * time.Second
)

// world is what a session depends on.
type world struct {
	controlPlane string
	apis         []string // sorted
	// identity is that of the physical cluster if it is the one that is meant; else
	// it is empty.
	identity types.UID
	// forgotten: an admin gave the physical cluster up. Its copies count as gone,
	// and nothing that is said about it is heard.
	forgotten bool
}

func (w world) serves(k workload.Kind) bool {
	_, ok := slices.BinarySearch(w.apis, k.API())
	return ok
}

// reporter tells the control plane how and who the physical cluster is, and learns
// from it which control plane it is. Of the agent it is the only one
// that writes the status of the PhysicalCluster, save for what the server
// concludes.
type reporter struct {
	target string
	resync time.Duration
	up     upstream
	down   physical
	gate   *gate

	wake chan struct{}
	// reporting is held for one report.
	reporting requestLock

	mu        sync.Mutex
	inv       *inventory // nil while nothing is to be seen
	world     world
	known     chan struct{} // closed and replaced when world changes
	isSyncing bool
	strays    fleetv1alpha1.OrphanCounts
	failure   *reportFailure
}

// reportFailure is why the physical cluster cannot be worked with.
type reportFailure struct{ reason, message string }

func newReporter(target string, resync time.Duration, up upstream, down physical, g *gate) *reporter {
	r := &reporter{
		target: target, resync: resync, up: up, down: down, gate: g,
		wake: make(chan struct{}, 1), known: make(chan struct{}),
	}
	g.alarm = r.notify
	return r
}

// errUnregistered: there is no PhysicalCluster any more.
var errUnregistered = errors.New("the physical cluster is not registered")

// run reports until ctx is done, or there is nothing to report on.
func (r *reporter) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(scope.WithCluster(ctx, scope.Root))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { r.watchInventory(ctx) })

	logger := klog.FromContext(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.wake:
			sleep(ctx, settle)
		}
		next := r.resync
		if done, err := r.once(ctx); errors.Is(err, errUnregistered) {
			logger.Info("The physical cluster is not registered any more, what is on it is left alone")
			return
		} else if err != nil {
			logger.V(2).Info("Reporting failed, will try again", "err", err)
			next = 2 * time.Second
		} else if !done {
			next = time.Second
		}
		timer.Reset(next)
	}
}

// notify asks for a report soon.
func (r *reporter) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// syncing notes that a session holds all its watches, or has ended.
func (r *reporter) syncing(is bool) {
	r.mu.Lock()
	r.isSyncing = is
	r.mu.Unlock()
	r.notify()
}

// orphans notes how many objects of ours belong to nothing in the control plane.
func (r *reporter) orphans(n fleetv1alpha1.OrphanCounts) {
	r.mu.Lock()
	changed := r.strays != n
	r.strays = n
	r.mu.Unlock()
	if changed {
		r.notify()
	}
}

func (r *reporter) orphanCounts() fleetv1alpha1.OrphanCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strays
}

// await returns the world as soon as it is known and there is something to do.
func (r *reporter) await(ctx context.Context) (world, error) {
	return r.until(ctx, func(w world) bool {
		return w.controlPlane != "" && len(w.apis) > 0 && w.identity != "" && !w.forgotten
	})
}

// changed returns when the world is not as it was.
func (r *reporter) changed(ctx context.Context, kinds workload.Catalog, before world) {
	_, _ = r.until(ctx, func(w world) bool {
		return w.controlPlane != before.controlPlane || w.forgotten != before.forgotten || w.identity != before.identity || !sameKinds(kinds, w, before)
	})
}

// until waits for a world; the error is that ctx ended before.
func (r *reporter) until(ctx context.Context, is func(world) bool) (world, error) {
	for {
		r.mu.Lock()
		w, known := r.world, r.known
		r.mu.Unlock()
		if is(w) {
			return w, nil
		}
		select {
		case <-ctx.Done():
			return world{}, ctx.Err()
		case <-known:
		}
	}
}

// watchInventory keeps an inventory of the cluster that is meant, for as long as it
// is that one.
func (r *reporter) watchInventory(ctx context.Context) {
	for ctx.Err() == nil {
		of, err := r.until(ctx, func(w world) bool { return w.identity != "" })
		if err != nil {
			return
		}
		inv := newInventory(r.down)
		r.setInventory(inv)
		running, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { inv.run(running, r.notify) })
		_, _ = r.until(ctx, func(w world) bool { return w.identity != of.identity })
		r.setInventory(nil)
		cancel()
		done.Wait()
	}
}

func (r *reporter) setInventory(i *inventory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inv = i
}

// sameKinds compares what a session cares for: a new custom resource does not
// end it.
func sameKinds(kinds workload.Catalog, a, b world) bool {
	for _, k := range kinds.Kinds() {
		if a.serves(k) != b.serves(k) {
			return false
		}
	}
	return true
}

// learn keeps what is known, wakes who waits for it and reports whether it is news.
func (r *reporter) learn(w world, failure *reportFailure) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = failure
	if len(w.apis) == 0 {
		w.apis = r.world.apis // silence changes nothing
	}
	if w.controlPlane == r.world.controlPlane && w.forgotten == r.world.forgotten && w.identity == r.world.identity && slices.Equal(w.apis, r.world.apis) {
		return false
	}
	r.world = w
	close(r.known)
	r.known = make(chan struct{})
	return true
}

// once looks at the physical cluster and writes the status of the PhysicalCluster
// if it differs. done is false as long as it has not been given the control plane's
// id, or the physical cluster cannot be worked with.
func (r *reporter) once(ctx context.Context) (done bool, err error) {
	unlock, err := r.reporting.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	client := r.up.atoll.FleetV1alpha1().PhysicalClusters()
	pc, err := client.Get(ctx, r.target, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, errUnregistered
	}
	if err != nil {
		return false, fmt.Errorf("reading the PhysicalCluster: %w", err)
	}
	who, failure := r.identify(ctx, pc)
	w := world{controlPlane: pc.Status.ControlPlane, identity: r.admit(pc, who), forgotten: pc.Spec.Forget}
	var seen survey
	switch {
	case failure != nil:
	case w.identity == "":
		failure = &reportFailure{fleetv1alpha1.ReasonIdentifying, "that the physical cluster is the one that is meant is about to be recorded"}
	default:
		seen, failure = r.survey(ctx)
	}
	w.apis = seen.apis
	news := r.learn(w, failure)
	if news && pc.Spec.Forget {
		klog.FromContext(ctx).Info("The physical cluster was given up (spec.forget is set): nothing is synced, and its copies stay as they are")
	}

	wanted := pc.DeepCopy()
	wanted.Status.Identity = who.Record
	if failure == nil {
		seen.fill(&wanted.Status)
	}
	wanted.Status.Orphans = r.orphanCounts()
	for _, c := range r.conditions(pc.Generation) {
		apimeta.SetStatusCondition(&wanted.Status.Conditions, c)
	}
	if !equality.Semantic.DeepEqual(pc.Status, wanted.Status) {
		if _, err := client.UpdateStatus(ctx, wanted, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("writing the status of the PhysicalCluster: %w", err)
		}
	}
	return pc.Status.ControlPlane != "" && failure == nil, nil
}

func (r *reporter) conditions(generation int64) []metav1.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready := metav1.Condition{
		Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: fleetv1alpha1.ReasonHeartbeat, Message: "the physical cluster answers",
	}
	if r.failure != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, r.failure.reason, r.failure.message
	}
	if r.world.forgotten {
		return []metav1.Condition{ready} // the server says that nothing is synced
	}
	syncing := metav1.Condition{
		Type: fleetv1alpha1.ConditionSyncing, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: "Starting", Message: "the watches are not complete yet",
	}
	if r.world.identity == "" {
		syncing.Reason, syncing.Message = fleetv1alpha1.ReasonIdentifying, "nothing is synced before the physical cluster is known to be the one that is meant"
	} else if r.isSyncing {
		syncing.Status, syncing.Reason, syncing.Message = metav1.ConditionTrue, "Watching", "all watches are held"
	}
	if n := r.strays.Undecided; n > 0 {
		syncing.Message += fmt.Sprintf("; %d objects there have neither an object nor a record here and wait for an order, see kubectl get orphans", n)
	}
	return []metav1.Condition{ready, syncing}
}
