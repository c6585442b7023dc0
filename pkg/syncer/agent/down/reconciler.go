package down

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxSteps bounds one pass over an object; the longest legitimate one (a Job
// made again in a new namespace) takes seven.
const maxSteps = 12

// errAgain ends a pass: what was read is outdated.
var errAgain = errors.New("read again")

// errUnconfirmed ends a pass: the physical cluster does not say who it is, which its condition Ready has a reason for.
var errUnconfirmed = errors.New("it is not known which physical cluster it is")

// Config is what a Reconciler works with.
type Config struct {
	View *view.View
	Up   connection.ControlPlane
	Down connection.Physical
	// Permits is what the physical cluster permits now; default: nothing beyond the
	// default.
	Permits func() boundary.Permits
	// Offered are the classes that it has now; default: not known.
	Offered func() boundary.Classes
	// Classes is what an admin declared of the volumes of a storage class there; default: nothing.
	Classes func(class string) fleetv1alpha1.ClassVolumes
	// Server is how pods there reach the control plane; default: they do not.
	Server func() syncer.Server
	// Supplies makes what pods mount.
	Supplies Supplies
	// Isolate makes what keeps other logical clusters from a physical namespace with a UID;
	// default: nothing does.
	Isolate func(ctx context.Context, in syncer.Space, uid types.UID) error
	// Plan decides; default syncer.Plan.
	Plan func(syncer.Input) []syncer.Action
	// Place finds where a copy is; default syncer.PlaceOf.
	Place func(in syncer.Input, namespace, made *unstructured.Unstructured) syncer.Place
	// Confirm returns an error unless who answers below is the cluster that is meant:
	// it is asked before something is acknowledged that cannot be taken back.
	Confirm func(context.Context) error
	// Forbidden is called when the control plane refuses a Copy.
	Forbidden func()
	// Orphans takes note of what is below without an object or a record above.
	Orphans Orphans
}

// Supplies is what pods below mount that nobody wrote above.
type Supplies interface {
	// Missing are those of some that a physical namespace lacks.
	Missing(namespace string, s syncer.Supplies) syncer.Supplies
	// Write makes them.
	Write(ctx context.Context, in syncer.Space, s syncer.Supplies) error
	// Nameserver is who answers pods with names of a logical cluster, as far as that is known.
	Nameserver(cluster logicalcluster.Name) syncer.Nameserver
	// FindNames has it known.
	FindNames(ctx context.Context, cluster logicalcluster.Name) error
}

// Orphans lists what belongs to nothing.
type Orphans interface {
	// Found: what carries the mark of the object has neither that nor a Copy. It
	// returns when to look again.
	Found(ctx context.Context, kind workload.Kind, key view.ObjectKey) (time.Duration, error)
	// Settled: there is nothing wrong with the object.
	Settled(key view.ObjectKey)
}

// Reconciler keeps copies.
type Reconciler struct {
	Config
	memory memory
	hosts  hosts
	making keyedMutex
	// closing are the physical namespaces that are about to be deleted.
	closing closing
	// refused and silent are how long to wait for what was refused, or not answered.
	refused, silent workqueue.TypedRateLimiter[view.ObjectKey]
}

// New makes a Reconciler.
func New(c Config) *Reconciler {
	if c.Plan == nil {
		c.Plan = syncer.Plan
	}
	if c.Place == nil {
		c.Place = syncer.PlaceOf
	}
	if c.Permits == nil {
		c.Permits = func() boundary.Permits { return boundary.Permits{} }
	}
	if c.Offered == nil {
		c.Offered = func() boundary.Classes { return boundary.Classes{} }
	}
	if c.Classes == nil {
		c.Classes = func(string) fleetv1alpha1.ClassVolumes { return fleetv1alpha1.ClassVolumes{} }
	}
	if c.Isolate == nil {
		c.Isolate = func(context.Context, syncer.Space, types.UID) error { return nil }
	}
	if c.Server == nil {
		c.Server = func() syncer.Server { return syncer.Server{} }
	}
	return &Reconciler{
		Config:  c,
		refused: workqueue.NewTypedItemExponentialFailureRateLimiter[view.ObjectKey](time.Second, 2*time.Minute),
		silent:  workqueue.NewTypedItemExponentialFailureRateLimiter[view.ObjectKey](50*time.Millisecond, 15*time.Second),
	}
}

// Reconcile brings one object and its copy together: read, plan, act, until
// there is nothing to do.
func (r *Reconciler) Reconcile(ctx context.Context, key view.ObjectKey) (controller.Result, error) {
	kind, ok := r.View.PlacedKind(key.Resource)
	if !ok {
		return controller.Result{}, nil
	}
	if kind.Role == workload.Container {
		// What is put into a namespace makes it, beside the queue.
		defer r.making.lock(key)()
	}
	return r.reconcile(ctx, key, kind)
}

// reconcile is Reconcile of a key that nobody else reconciles now.
func (r *Reconciler) reconcile(ctx context.Context, key view.ObjectKey, kind workload.Kind) (controller.Result, error) {
	pass := &pass{Reconciler: r, key: key, kind: kind}
	err := pass.run(ctx)
	switch {
	case errors.Is(err, errAgain):
		return controller.Result{RequeueAfter: r.silent.When(key)}, nil
	case syncer.IsSilence(err), errors.Is(err, errUnconfirmed):
		klog.FromContext(ctx).V(2).Info("No answer, will try again", "err", err)
		return controller.Result{RequeueAfter: r.silent.When(key)}, nil
	case err != nil:
		return controller.Result{}, err
	}
	r.silent.Forget(key)
	pass.settle()
	return controller.Result{RequeueAfter: pass.after}, nil
}

// pass is one run over one object.
type pass struct {
	*Reconciler
	key  view.ObjectKey
	kind workload.Kind
	in   syncer.Input
	// after is when to look again, if nothing changes.
	after time.Duration
	// stray: the physical cluster has something in the place of the copy that the
	// informer lacks, as after a list that came back short. It will say nothing
	// when that changes or goes.
	stray bool
}

func (p *pass) run(ctx context.Context) error {
	p.read()
	if err := p.readRuntimeClasses(ctx); err != nil {
		return err
	}
	if err := p.readCarried(ctx); err != nil {
		return err
	}
	for range maxSteps {
		p.in.Now = time.Now()
		actions := p.Plan(p.in)
		if len(actions) == 0 {
			p.done()
			return p.carry(ctx)
		}
		for _, action := range actions {
			if err := p.act(ctx, action); err != nil {
				return err
			}
			if p.in.Failure != nil && action.Verb != syncer.WriteCopy {
				break // plan again with the failure
			}
		}
		if p.after > 0 {
			return nil
		}
	}
	return fmt.Errorf("no end after %d steps: %w", maxSteps, errAgain)
}

// settle looks again when the copy has led to pods for a while.
func (p *pass) settle() {
	since, left := syncer.Settling(p.in)
	if !maps.Equal(since, p.in.LedSince) {
		p.memory.change(p.key, func(r *remembered) { r.led = since })
	}
	if left > 0 && (p.after == 0 || left < p.after) {
		p.after = left
	}
}

// done forgets what was only of interest while something was wrong.
func (p *pass) done() {
	p.Orphans.Settled(p.key)
	if !p.in.Counting.IsZero() {
		p.memory.change(p.key, func(r *remembered) { r.counting = time.Time{} })
	}
	outcome := syncer.OutcomeOf(p.in)
	if p.in.Ref.IsNamespace() {
		refused := time.Time{}
		if p.in.Failure != nil {
			refused = time.Now()
		}
		p.memory.change(p.key, func(r *remembered) { r.refused = refused })
	}
	if outcome.Retry {
		p.after = p.refused.When(p.key)
		return
	}
	p.refused.Forget(p.key)
	p.after = max(p.View.WrittenCopies.Outstanding(p.key), p.View.WrittenBelow.Outstanding(p.key))
	if p.stray {
		p.after = cmp.Or(p.after, syncer.UnwatchedInterval)
	}
	if outcome.Forget {
		p.memory.forget(p.key)
	}
}
