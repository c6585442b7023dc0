package report

import (
	"cmp"
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
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/skew"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// settle bounds how often a change below is reported.
	settle = time.Second
	// drainInterval is how often it is looked what is left during a drain.
	drainInterval = 5 * time.Second
	// crowdDelay is how long nothing is counted of a physical cluster that has shown too much,
	// and how long that has to go well to be over.
	crowdDelay = 30 * time.Second
)

// Reporter reports to the control plane how and who the physical cluster is, and learns
// from it which control plane it is. Of the agent it is the only one
// that writes the status of the PhysicalCluster, save for what the server
// concludes.
type Reporter struct {
	physicalCluster string
	resync          time.Duration
	up              connection.ControlPlane
	down            connection.Physical
	gate            *connection.Gate
	kinds           workload.Source
	name            string
	version         skew.Side

	wake chan struct{}
	// reporting is held for one report.
	reporting connection.RequestLock

	// draining is for who reports only.
	draining bool

	mu        sync.Mutex
	inv       *inventory // nil while nothing is to be seen
	world     World
	known     chan struct{} // closed and replaced when world changes
	isSyncing bool
	// watches are those of the session; nil before the first one.
	watches Watches
	strays  fleetv1alpha1.OrphanCounts
	// lacking counts namespaces without full isolation.
	lacking syncer.Lacking
	// notAdmitted is why pods are not admitted by their logical cluster.
	notAdmitted error
	// excess is why the physical cluster is not synced although it answers, and crowd why
	// nobody counts what it has.
	excess, crowd *syncer.Failure
	failure       *syncer.Failure
}

// Config is what a Reporter works with.
type Config struct {
	// PhysicalCluster is its name.
	PhysicalCluster string
	// Interval is how often the status is compared with what there is, when nothing is
	// seen to change.
	Interval time.Duration
	Up       connection.ControlPlane
	Down     connection.Physical
	// Gate is opened for the cluster that is meant.
	Gate *connection.Gate
	// Kinds are those of which objects may be there.
	Kinds workload.Source
	// Name is who looks, as the evidence of a drain says.
	Name string
	// Version is that of the syncer.
	Version skew.Side
}

// New makes a Reporter, which is called by the gate from now on.
func New(c Config) *Reporter {
	r := &Reporter{
		physicalCluster: c.PhysicalCluster, resync: c.Interval, up: c.Up, down: c.Down, gate: c.Gate, kinds: c.Kinds, name: c.Name, version: c.Version,
		wake: make(chan struct{}, 1), known: make(chan struct{}), notAdmitted: syncer.ErrAdmissionNotOffered,
	}
	c.Gate.OnAlarm(r.Notify)
	return r
}

// errUnregistered: there is no PhysicalCluster any more.
var errUnregistered = errors.New("the physical cluster is not registered")

// errNotAccepted: the server does not say whether there is one. It may be gone, or be another one of
// that name; so nothing is concluded from it.
var errNotAccepted = errors.New("the server does not accept the credential of the syncer")

// Run reports until ctx is done, or there is nothing to report on.
func (r *Reporter) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(scope.WithCluster(ctx, scope.Root))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { r.watchInventory(ctx) })

	logger := klog.FromContext(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.wake:
			connection.Sleep(ctx, settle)
		}
		next := r.resync
		if done, err := r.once(ctx); errors.Is(err, errUnregistered) {
			logger.Info("The physical cluster is not registered any more, what is on it is left alone")
			return
		} else if err != nil {
			if errors.Is(err, errNotAccepted) && !said {
				logger.Info("The server does not accept the credential of the syncer, what is on the physical cluster is left alone: was it unregistered, or registered again?")
				said = true
			}
			logger.V(2).Info("Reporting failed, will try again", "err", err)
			next = 2 * time.Second
		} else if !done {
			next = time.Second
		} else if r.draining {
			next = min(next, drainInterval)
		}
		timer.Reset(next)
	}
}

// Notify asks for a report soon.
func (r *Reporter) Notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Syncing notes that a session holds all its watches, or has ended.
func (r *Reporter) Syncing(is bool) {
	r.mu.Lock()
	r.isSyncing = is
	r.mu.Unlock()
	r.Notify()
}

// Watches are what a session watches.
type Watches interface {
	// Awaited names the objects whose first list it waits for; empty if there are none.
	Awaited() string
	// Unwatched is what there is no watch of.
	Unwatched() []syncer.Unwatched
}

// Begins notes that a session begins.
func (r *Reporter) Begins(w Watches) {
	r.mu.Lock()
	r.watches = w
	r.mu.Unlock()
}

// TooLarge notes that the physical cluster shows more than is kept of it; nil that it does
// not any more.
func (r *Reporter) TooLarge(excess error) {
	r.mu.Lock()
	r.excess = syncer.ExcessFailure(excess)
	r.mu.Unlock()
	r.Notify()
}

// Excessive says that TooLarge has been noted.
func (r *Reporter) Excessive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.excess != nil
}

func (r *Reporter) excessive() *syncer.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.excess, r.crowd)
}

// crowded notes that the physical cluster has more nodes and pods than are counted.
func (r *Reporter) crowded(why error) {
	r.mu.Lock()
	r.crowd = nil
	if why != nil {
		r.crowd = &syncer.Failure{Reason: fleetv1alpha1.ReasonTooLarge, Message: fmt.Sprintf("it shows more nodes, pods and storage classes than a syncer counts: %v", why)}
	}
	r.mu.Unlock()
	r.Notify()
}

// Orphans notes how many objects of ours belong to nothing in the control plane.
func (r *Reporter) Orphans(n fleetv1alpha1.OrphanCounts) {
	r.mu.Lock()
	changed := r.strays != n
	r.strays = n
	r.mu.Unlock()
	if changed {
		r.Notify()
	}
}

// Lacking notes how many namespaces have policies that are not all that they should be.
func (r *Reporter) Lacking(l syncer.Lacking) {
	r.mu.Lock()
	changed := r.lacking != l
	r.lacking = l
	r.mu.Unlock()
	if changed {
		r.Notify()
	}
}

// Admitting notes whether pods are admitted by their logical cluster, or why not.
func (r *Reporter) Admitting(problem error) {
	r.mu.Lock()
	changed := fmt.Sprint(r.notAdmitted) != fmt.Sprint(problem)
	r.notAdmitted = problem
	r.mu.Unlock()
	if changed {
		r.Notify()
	}
}

func (r *Reporter) orphanCounts() fleetv1alpha1.OrphanCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strays
}

// watchInventory keeps an inventory of the cluster that is meant, for as long as it
// is that one.
func (r *Reporter) watchInventory(ctx context.Context) {
	for ctx.Err() == nil {
		of, err := r.until(ctx, func(w World) bool { return w.Identity != "" })
		if err != nil {
			return
		}
		inv := newInventory(r.down)
		r.setInventory(inv)
		running, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { inv.run(running, r.Notify) })
		counting, full := context.WithCancel(running)
		done.Go(func() {
			select {
			case <-inv.allowance.Exceeded():
				full()
			case <-running.Done():
			}
		})
		fits := time.AfterFunc(crowdDelay, func() { r.crowded(inv.allowance.Err()) })
		_, _ = r.until(counting, func(w World) bool { return w.Identity != of.Identity })
		full()
		fits.Stop()
		r.setInventory(nil)
		cancel()
		done.Wait()
		if err := inv.allowance.Err(); err != nil {
			r.crowded(err)
			connection.Sleep(ctx, crowdDelay)
		}
	}
}

func (r *Reporter) setInventory(i *inventory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inv = i
}

// once looks at the physical cluster and writes the status of the PhysicalCluster
// if it differs. done is false as long as it has not been given the control plane's
// id, or the physical cluster cannot be worked with.
func (r *Reporter) once(ctx context.Context) (done bool, err error) {
	unlock, err := r.reporting.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	client := r.up.Atoll.FleetV1alpha1().PhysicalClusters()
	pc, err := client.Get(ctx, r.physicalCluster, metav1.GetOptions{})
	if syncer.IsGone(err, fleetv1alpha1.Resource("physicalclusters"), r.physicalCluster) {
		return false, errUnregistered
	}
	if apierrors.IsUnauthorized(err) {
		return false, errNotAccepted
	}
	if err != nil {
		return false, fmt.Errorf("reading the PhysicalCluster: %w", err)
	}
	who, failure := r.identify(ctx, pc)
	w := World{
		ControlPlane: pc.Status.ControlPlane, Identity: r.admit(pc, who), Forgotten: pc.Spec.Forget, Tenancy: pc.Permits(), Volumes: pc.Spec.Volumes, Bounds: pc.Spec.Bounds,
		Server: serverFor(pc.Status.Pods), Names: pc.Spec.Pods.Names.Namespace, Admission: pc.Spec.Pods.Admission,
	}
	var seen survey
	switch {
	case failure != nil:
	case w.Identity == "":
		failure = &syncer.Failure{Reason: fleetv1alpha1.ReasonIdentifying, Message: "that the physical cluster is the one that is meant is about to be recorded"}
	default:
		if seen, failure = r.survey(ctx, w.Tenancy); failure == nil {
			failure = r.excessive()
		}
	}
	w.APIs, w.RuntimeClasses, w.Classes = seen.apis, seen.runtimes.digest, seen.offered
	var evidence *fleetv1alpha1.DrainEvidence
	if r.draining = failure == nil && asksForEvidence(pc); r.draining {
		if evidence, err = r.evidence(ctx, pc, seen.apis); err != nil {
			failure = syncer.ContactFailure(err) // nothing is placed there any more whose state that would veil
		}
	}
	news := r.learn(w, failure)
	if news && pc.Spec.Forget {
		klog.FromContext(ctx).Info("The physical cluster was given up (spec.forget is set): nothing is synced, and its copies stay as they are")
	}

	wanted := pc.DeepCopy()
	wanted.Status.Identity = who.Record
	wanted.Status.Syncer = &fleetv1alpha1.SyncerVersion{Version: r.version.Build, Revision: r.version.Revision}
	if failure == nil {
		seen.fill(&wanted.Status)
	}
	if r.draining && failure == nil {
		wanted.Status.Drain.Seen = evidence
	}
	wanted.Status.Orphans = r.orphanCounts()
	for _, c := range r.conditions(pc.Generation) {
		apimeta.SetStatusCondition(&wanted.Status.Conditions, c)
	}
	apimeta.SetStatusCondition(&wanted.Status.Conditions, r.resolves(ctx, pc, failure))
	apimeta.SetStatusCondition(&wanted.Status.Conditions, r.isolates(wanted, failure))
	apimeta.SetStatusCondition(&wanted.Status.Conditions, r.admits(pc, failure))
	if c := syncer.DeclaredKindsCondition(r.declared(), seen.forbidden, failure, pc.Generation); c != nil {
		apimeta.SetStatusCondition(&wanted.Status.Conditions, *c)
	} else {
		apimeta.RemoveStatusCondition(&wanted.Status.Conditions, fleetv1alpha1.ConditionDeclaredKinds)
	}
	if !equality.Semantic.DeepEqual(pc.Status, wanted.Status) {
		if _, err := client.UpdateStatus(ctx, wanted, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("writing the status of the PhysicalCluster: %w", err)
		}
	}
	return pc.Status.ControlPlane != "" && failure == nil, nil
}

// declared counts the declared kinds.
func (r *Reporter) declared() int {
	if r.kinds == nil {
		return 0
	}
	return len(r.kinds.Current().Declared())
}

// isolates says whether pods of other logical clusters are kept out, as far as we can.
func (r *Reporter) isolates(pc *fleetv1alpha1.PhysicalCluster, failure *syncer.Failure) metav1.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, served := slices.BinarySearch(r.world.APIs, "networking.k8s.io/v1/networkpolicies")
	return syncer.IsolationCondition(pc, served, r.lacking, failure)
}

// admits says whether pods are admitted by their logical cluster.
func (r *Reporter) admits(pc *fleetv1alpha1.PhysicalCluster, failure *syncer.Failure) metav1.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return syncer.AdmissionCondition(pc.Spec.Pods.Admission != nil, r.notAdmitted, failure, pc.Generation)
}

func (r *Reporter) conditions(generation int64) []metav1.Condition {
	return r.readiness().Conditions(generation)
}

func (r *Reporter) readiness() syncer.Readiness {
	r.mu.Lock()
	defer r.mu.Unlock()
	readiness := syncer.Readiness{
		Failure: r.failure, Identified: r.world.Identity != "", Forgotten: r.world.Forgotten,
		Watching: r.isSyncing, Undecided: r.strays.Undecided, Now: time.Now(),
	}
	if r.watches != nil {
		readiness.Awaited, readiness.Unwatched = r.watches.Awaited(), r.watches.Unwatched()
	}
	if r.inv != nil {
		readiness.Unwatched = append(readiness.Unwatched, r.inv.unwatched()...)
	}
	return readiness
}
