package physicalclusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	name    = "physicalclusters"
	workers = 2
	// batchDelay collects the many events of copies into one look.
	batchDelay = time.Second
	// recheckInterval is how often a physical cluster that goes or is forgotten is looked
	// at without an event.
	recheckInterval = 10 * time.Second
	// drainInterval is how often it is counted what is left to be drained.
	drainInterval = 2 * time.Second
)

// Config is what the controller works with. The clients take the logical
// cluster from the context and act as the system.
type Config struct {
	Kube   kubernetes.Interface
	Client versioned.Interface

	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	Leases           *controller.Informer[*coordinationv1.Lease]
	Copies           *controller.Informer[*placementv1alpha1.Copy]
	Placements       *controller.Informer[*placementv1alpha1.Placement]
	// Kinds are those that have copies.
	Kinds workload.Source
	// Objects has the metadata of all kinds.
	Objects *controller.Metadata

	// PodsServer is the URL by which pods reach the server, where a PhysicalCluster says
	// nothing else; empty: there is none. CA is what its certificate is signed by.
	PodsServer string
	CA         []byte
	// Refusals has the syncers that this server does not work with; nil if it serves none.
	Refusals *Refusals
	// ControlPlane returns the id of the control plane.
	ControlPlane func(context.Context) (string, error)
	// Clock is the real one by default.
	Clock clock.PassiveClock
	// Standstill has for how long the process stood still; nil: it never does.
	Standstill *controller.Standstill
}

// Controller cares for PhysicalClusters.
type Controller struct {
	Config
	heartbeats *heartbeats
	identities answers
	queue      *controller.Controller[controller.Request]
}

// leaseNamespace is the key under which the namespace of the Leases is made.
var leaseNamespace = controller.Request{Cluster: scope.Root}

// New makes the controller and subscribes it to the informers.
func New(config Config) *Controller {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Refusals == nil {
		config.Refusals = NewRefusals(config.Clock)
	}
	c := &Controller{Config: config, heartbeats: newHeartbeats(config.Standstill)}
	c.queue = controller.New(name, workers, c.reconcile)
	c.queue.Enqueue(leaseNamespace)
	c.Refusals.follow(func(target string) { c.queue.Enqueue(keyOf(target)) })
	c.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		c.networkChanged(old, new)
		if new == nil {
			new = old
		}
		c.queue.Enqueue(keyOf(new.Name))
	})
	c.Leases.Handle(func(_, new *coordinationv1.Lease) {
		if new != nil && new.Namespace == fleetv1alpha1.LeaseNamespace && controller.RequestFor(new).Cluster == scope.Root {
			c.queue.Enqueue(keyOf(new.Name))
		}
	})
	c.Copies.Handle(func(old, new *placementv1alpha1.Copy) {
		if new == nil {
			c.queue.EnqueueAfter(keyOf(old.Spec.PhysicalCluster), batchDelay)
		}
	})
	c.Placements.Handle(func(old, new *placementv1alpha1.Placement) {
		if new != nil || old.Spec.Decision == nil {
			return
		}
		for _, d := range old.Spec.Decision.PhysicalClusters {
			c.queue.EnqueueAfter(keyOf(d.Name), batchDelay)
		}
	})
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

func keyOf(name string) controller.Request {
	return controller.Request{Cluster: scope.Root, Name: name}
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	if key == leaseNamespace {
		return controller.Result{}, c.makeLeaseNamespace(ctx)
	}
	pc, ok := c.PhysicalClusters.Get(key)
	if !ok {
		c.heartbeats.forget(key.Name)
		c.identities.forget(key.Name)
		c.Refusals.forget(key.Name)
		return controller.Result{}, c.removeLease(ctx, key.Name)
	}
	if pc.DeletionTimestamp == nil && !slices.Contains(pc.Finalizers, fleetv1alpha1.CopiesFinalizer) {
		return controller.Result{}, c.writeFinalizers(ctx, pc, append(slices.Clone(pc.Finalizers), fleetv1alpha1.CopiesFinalizer))
	}

	wanted := pc.DeepCopy()
	result, err := c.conclude(ctx, wanted)
	if err != nil {
		return controller.Result{}, err
	}
	if err := c.drain(ctx, wanted); err != nil {
		return controller.Result{}, err
	}
	if pc.Spec.Drain.Requested {
		result = sooner(result, drainInterval)
	}
	asked := asks(wanted.Status.Identity)
	if left := c.identities.left(wanted, c.Clock.Now()); asked && left > 0 {
		asked, result = false, sooner(result, left)
	}
	if asked {
		if err := c.accept(ctx, wanted); err != nil {
			return controller.Result{}, err
		}
	}
	if wanted.Status.Identity.SameAs != "" {
		result = sooner(result, recheckInterval) // the other one may go
	}
	var forgetErr error
	if pc.Spec.Forget {
		if err := c.confirmForget(ctx, pc); err != nil {
			return controller.Result{}, err
		}
		var copies []*placementv1alpha1.Copy
		copies, forgetErr = c.forget(ctx, pc)
		wanted.Status.Forgotten = report(pc.Status.Forgotten, copies, c.Clock.Now())
		result = sooner(result, recheckInterval)
	}
	free := false
	if pc.DeletionTimestamp != nil && slices.Contains(pc.Finalizers, fleetv1alpha1.CopiesFinalizer) {
		if free, err = c.checkUse(ctx, wanted); err != nil {
			return controller.Result{}, err
		}
		result = sooner(result, recheckInterval)
	}
	if !apiequality.Semantic.DeepEqual(pc.Status, wanted.Status) {
		written, err := c.Client.FleetV1alpha1().PhysicalClusters().UpdateStatus(ctx, wanted, metav1.UpdateOptions{})
		if err != nil {
			return controller.Result{}, fmt.Errorf("writing the status: %w", err)
		}
		pc = written
	}
	if asked {
		c.identities.note(pc, c.Clock.Now())
	}
	if forgetErr != nil {
		return controller.Result{}, forgetErr
	}
	if free {
		return controller.Result{}, c.writeFinalizers(ctx, pc, slices.DeleteFunc(slices.Clone(pc.Finalizers),
			func(f string) bool { return f == fleetv1alpha1.CopiesFinalizer }))
	}
	return result, nil
}

func sooner(r controller.Result, d time.Duration) controller.Result {
	if r.RequeueAfter == 0 || d < r.RequeueAfter {
		r.RequeueAfter = d
	}
	return r
}

// conclude sets what the server knows about a physical cluster.
func (c *Controller) conclude(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (controller.Result, error) {
	id, err := c.ControlPlane(ctx)
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading the id of the control plane: %w", err)
	}
	pc.Status.ControlPlane = id
	now := c.Clock.Now()
	lease, _ := c.Leases.Get(controller.Request{Cluster: scope.Root, Namespace: fleetv1alpha1.LeaseNamespace, Name: pc.Name})
	if lease, err = c.confirmSilence(ctx, pc, lease, now); err != nil {
		return controller.Result{}, err
	}
	holds := c.concludeHealth(pc, lease, now)
	c.publishPodsAccess(pc, now)
	c.publishNetwork(pc)
	return controller.Result{RequeueAfter: holds}, nil
}

// confirmSilence reads the Lease from the database before it is said for the first time that a syncer
// is silent: a process that stood still for a while, beside servers that did not, has not heard of renewals
// that there were.
func (c *Controller) confirmSilence(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster, lease *coordinationv1.Lease, now time.Time) (*coordinationv1.Lease, error) {
	heard := c.heartbeats.of(pc.Name, lease, now)
	ready := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady)
	if !heard.ever || now.Before(heard.seen.Add(placement.Silence)) || ready != nil && ready.Reason == fleetv1alpha1.ReasonHeartbeatLost {
		return lease, nil
	}
	live, err := c.Kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace).Get(ctx, pc.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lease, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Lease of a syncer that seems to be silent: %w", err)
	}
	return live, nil
}

// concludeHealth sets the conditions that follow from the last sign of life of a syncer, and
// returns how long they hold.
func (c *Controller) concludeHealth(pc *fleetv1alpha1.PhysicalCluster, lease *coordinationv1.Lease, now time.Time) (holds time.Duration) {
	heard := c.heartbeats.of(pc.Name, lease, now)
	if r, ok := c.Refusals.of(pc.Name, now); ok {
		refuse(pc, r, lease, heard, now)
	}
	pc.Status.Conditions, holds = health(pc, later(heard, c.heartbeats.ofRefusals(pc, now)), now)
	return holds
}

func (c *Controller) makeLeaseNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.LeaseNamespace}}
	if _, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the namespace of the Leases: %w", err)
	}
	return nil
}

// removeLease removes the heartbeat of a physical cluster that is gone: one that
// is registered anew under the name has not reported yet. That the informer lacks it
// proves nothing: it may just have been registered.
func (c *Controller) removeLease(ctx context.Context, name string) error {
	lease, ok := c.Leases.Get(controller.Request{Cluster: scope.Root, Namespace: fleetv1alpha1.LeaseNamespace, Name: name})
	if !ok {
		return nil
	}
	if _, err := c.Client.FleetV1alpha1().PhysicalClusters().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("reading the physical cluster: %w", err)
		}
		return nil // it comes back here when the informer knows it
	}
	err := c.Kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(lease.UID))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict is the Lease of a successor
		return fmt.Errorf("removing the Lease: %w", err)
	}
	return nil
}

// writeFinalizers patches the finalizers of the version that was read.
func (c *Controller) writeFinalizers(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pc.UID, "resourceVersion": pc.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	_, err = c.Client.FleetV1alpha1().PhysicalClusters().Patch(ctx, pc.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the finalizers: %w", err)
	}
	return nil
}
