package orphans

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// interval is how often an orphan is looked at without an event, and removalInterval
	// one that is being removed.
	interval        = 10 * time.Minute
	removalInterval = 5 * time.Second
	// confirmInterval is when what was listed is looked at again until our watch shows it:
	// a control plane that is restored meanwhile has forgotten it, and no watch tells.
	confirmInterval = 30 * time.Second
	// maxSteps bounds one pass over an orphan; the longest has four, and two for each volume that it keeps.
	maxSteps = 100
)

// Config is what a Reconciler works with.
type Config struct {
	View *view.View
	Up   connection.ControlPlane
	Down connection.Physical
	// Counted is called with how many orphans there are.
	Counted func(fleetv1alpha1.OrphanCounts)
}

// Reconciler lists orphans and carries out the orders for them.
type Reconciler struct {
	Config
	mu sync.Mutex
	// unlisted are the objects of which the list has no room for what is below.
	unlisted map[view.ObjectKey]bool
}

// New makes a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{Config: c, unlisted: map[view.ObjectKey]bool{}} }

// Count reports how many orphans there are, listed or not.
func (r *Reconciler) Count() {
	r.mu.Lock()
	unlisted := int32(len(r.unlisted))
	r.mu.Unlock()
	counts := fleetv1alpha1.OrphanCounts{Found: unlisted, Undecided: unlisted}
	for _, o := range r.View.Orphans() {
		counts.Found++
		if o.Spec.Order == "" {
			counts.Undecided++
		}
	}
	r.Counted(counts)
}

// remember notes whether the list has no room for what is below of an object.
func (r *Reconciler) remember(key view.ObjectKey, unlisted bool) {
	r.mu.Lock()
	changed := r.unlisted[key] != unlisted
	if unlisted {
		r.unlisted[key] = true
	} else {
		delete(r.unlisted, key)
	}
	r.mu.Unlock()
	if changed {
		r.Count()
	}
}

// Settled says that there is nothing wrong with an object.
func (r *Reconciler) Settled(key view.ObjectKey) { r.remember(key, false) }

// Found lists everything that carries the mark of an object that has neither an object
// nor a Copy above, and says when to look again.
func (r *Reconciler) Found(ctx context.Context, kind workload.Kind, key view.ObjectKey) (time.Duration, error) {
	after := interval
	marked := r.View.Marked
	if kind.Carries {
		marked = r.View.CarriedMarked
	}
	for _, obj := range marked(key) {
		if r.View.IsMirrored(key.Resource, obj.GetUID()) || len(r.View.OrphansByUID(obj.GetUID())) > 0 {
			continue
		}
		if len(r.View.Orphans()) >= fleetv1alpha1.MaxOrphans {
			r.remember(key, true)
			return interval, nil
		}
		if err := r.list(ctx, kind, obj); err != nil {
			return 0, err
		}
		after = confirmInterval
	}
	r.remember(key, false)
	return after, nil
}

func (r *Reconciler) list(ctx context.Context, kind workload.Kind, obj *unstructured.Unstructured) error {
	o, ok := syncer.NewOrphan(r.View.Target, r.View.ControlPlane, kind, obj)
	if kind.Carries {
		o, ok = syncer.NewCarriedOrphan(r.View.Target, r.View.ControlPlane, kind, r.View.CarriedResource(obj), obj)
	}
	if !ok {
		return nil
	}
	_, err := r.Up.Atoll.FleetV1alpha1().Orphans().Create(scope.WithCluster(ctx, scope.Root), o, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("listing an orphan: %w", err)
	}
	klog.FromContext(ctx).Info("Found an object of ours without an object or a record in the control plane, leaving it until there is an order",
		"uid", obj.GetUID(), "orphan", o.Name)
	return nil
}

// Reconcile brings one Orphan up to date: whether it is one, and what becomes of its
// order.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	o, ok := r.View.Orphan(controller.Request{Cluster: scope.Root, Name: name})
	if !ok || o.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	kind, ok := r.View.KindOfOrphan(o)
	if !ok || !kind.Carries && !r.View.Served(kind.GroupVersionResource()) {
		return controller.Result{RequeueAfter: interval}, nil // nothing can be said about it
	}
	err := r.settle(ctx, kind, o)
	switch {
	case apierrors.IsConflict(err), syncer.IsSilence(err):
		return controller.Result{RequeueAfter: removalInterval}, nil
	case err != nil:
		return controller.Result{}, err
	case o.Spec.Order == fleetv1alpha1.OrphanRemove, o.Spec.Order == fleetv1alpha1.OrphanDiscard:
		return controller.Result{RequeueAfter: removalInterval}, nil
	}
	return controller.Result{RequeueAfter: interval}, nil
}

func (r *Reconciler) settle(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) error {
	in, err := r.read(ctx, kind, o)
	if err != nil {
		return err
	}
	for range maxSteps {
		actions := syncer.PlanOrphan(in)
		for _, a := range actions {
			if err := r.act(ctx, &in, a); err != nil {
				return err
			}
			if a.Verb == syncer.WriteOrphan || a.Verb == syncer.DropOrphan {
				return nil // its watch brings it back
			}
		}
		if len(actions) == 0 {
			return nil
		}
	}
	return fmt.Errorf("no end after %d steps", maxSteps)
}

// act does one action and puts what it learned into the input of the next plan.
func (r *Reconciler) act(ctx context.Context, in *syncer.OrphanInput, a syncer.Action) (err error) {
	client := r.Up.Atoll.FleetV1alpha1().Orphans()
	root := scope.WithCluster(ctx, scope.Root)
	switch a.Verb {
	case syncer.AskServer: // the last word is that of the server about what is placed here, now
		in.Logical, err = r.claimed(ctx, in.Kind, in.Orphan)
		in.Asked = err == nil
		return err
	case syncer.LookAtVolume:
		return r.lookAtVolume(ctx, in)
	case syncer.UpdateVolume:
		return r.updateVolume(ctx, in, a)
	case syncer.Delete:
		in.Failure, err = r.delete(ctx, *in, a)
		in.Deleted = err == nil
		return err
	case syncer.DropOrphan:
		err := client.Delete(root, in.Orphan.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(in.Orphan.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing an Orphan: %w", err)
		}
		return nil
	case syncer.WriteOrphan:
		if _, err := client.UpdateStatus(root, a.Orphan, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing the status of an Orphan: %w", err)
		}
		return nil
	}
	return fmt.Errorf("unknown verb %q", a.Verb)
}

// read gathers what is known; that the physical cluster does not have it any
// more says the physical cluster itself.
func (r *Reconciler) read(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (in syncer.OrphanInput, err error) {
	gvr := kind.GroupVersionResource()
	in = syncer.OrphanInput{Target: r.View.Target, ControlPlane: r.View.ControlPlane, Kind: kind, Orphan: o}
	in.Physical = r.View.PhysicalByUID(gvr, o.Spec.Object.UID)
	if in.Physical == nil {
		if in.Physical, err = r.look(ctx, kind, o); err != nil || in.Physical == nil {
			return in, err
		}
	}
	in.Mirrored = r.View.IsMirrored(gvr, o.Spec.Object.UID)
	key, _ := r.View.KeyOfClaim(o)
	if c, ok := r.View.Copy(key); ok {
		in.Copy = c
	}
	in.Logical, _ = r.View.Object(key)
	if namespace, ok := r.View.Namespace(key.Request.Cluster, o.Spec.Claim.Namespace); ok && !kind.Carries {
		in.Namespace = syncer.PhysicalName(namespace)
	}
	if kind.Role == workload.Container {
		in.Contents = r.contents(in.Physical.GetName())
	}
	return in, nil
}

// contents counts the copies, and what was copies, in a physical namespace.
func (r *Reconciler) contents(namespace string) int {
	n := 0
	for _, kind := range r.View.Kinds().Kinds() {
		if kind.Role == workload.Container {
			continue
		}
		gvr := kind.GroupVersionResource()
		for _, obj := range r.View.PhysicalIn(gvr, namespace) {
			if _, ok := syncer.MarkOf(gvr.GroupResource(), obj); ok {
				n++
			}
		}
	}
	return n
}

// look asks the physical cluster; nil if it is gone, or another one has
// its name.
func (r *Reconciler) look(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	obj, err := r.client(kind, o).Get(ctx, o.Spec.Object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && syncer.NotFoundOf(err, syncer.OrphanedObject(o)) == syncer.NotFoundUnclear:
		gone, again := r.Down.KindGone(ctx, schema.GroupResource{Group: o.Spec.Object.Group, Resource: o.Spec.Object.Resource})
		if !gone {
			return nil, fmt.Errorf("looking for an orphan, of which the kind may not be served: %w", errors.Join(err, again))
		}
		return nil, nil
	case apierrors.IsNotFound(err), err == nil && obj.GetUID() != o.Spec.Object.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for an orphan: %w", err)
	}
	return obj, nil
}

func (r *Reconciler) client(kind workload.Kind, o *fleetv1alpha1.Orphan) dynamic.ResourceInterface {
	gvr := kind.GroupVersionResource()
	if kind.Carries {
		gvr = schema.GroupVersionResource{Group: o.Spec.Object.Group, Version: o.Spec.Object.Version, Resource: o.Spec.Object.Resource}
	}
	c := r.Down.Dynamic.Resource(gvr)
	if o.Spec.Object.Namespace == "" {
		return c
	}
	return c.Namespace(o.Spec.Object.Namespace)
}

// claimed asks the server for the object that an orphan claims, as far as it is
// placed here.
func (r *Reconciler) claimed(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (*unstructured.Unstructured, error) {
	c := apimeta.FindStatusCondition(o.Status.Conditions, fleetv1alpha1.ConditionObjectExists)
	if c != nil && c.Reason == fleetv1alpha1.ReasonNoLogicalCluster {
		return nil, nil // there is nobody to ask
	}
	ref := syncer.ClaimOf(kind, o)
	get := r.Up.Dynamic.Resource(kind.GroupVersionResource()).Get
	if ref.Namespace != "" {
		get = r.Up.Dynamic.Resource(kind.GroupVersionResource()).Namespace(ref.Namespace).Get
	}
	obj, err := get(scope.WithCluster(ctx, logicalcluster.Name(o.Spec.Claim.LogicalCluster)), ref.Name, metav1.GetOptions{})
	key, _ := r.View.KeyOfClaim(o)
	switch {
	case syncer.IsGone(err, key.Resource.GroupResource(), key.Request.Name), syncer.IsNamespaceGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking for the object that an orphan claims: %w", err)
	}
	return obj, nil
}

// lookAtVolume asks for a volume that would go with the claim, or with one in the namespace.
func (r *Reconciler) lookAtVolume(ctx context.Context, in *syncer.OrphanInput) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	claim := ""
	if in.Kind.IsClaim() {
		claim = in.Physical.GetName()
	}
	pv, version, err := r.Down.LeftVolume(ctx, syncer.PhysicalNamespaceOf(in.Physical), claim)
	switch {
	case err != nil:
		return r.volumeRefused(in, "before it goes", err)
	case r.View.PrecedesBelow(connection.Claims, version): // what else is in a namespace is not known either
		return errors.New("the physical cluster may have gone back since it was looked at")
	}
	in.Volume = syncer.Volume{Looked: true, Object: pv}
	return nil
}

// updateVolume keeps a volume as it was looked at, and looks for the next one.
func (r *Reconciler) updateVolume(ctx context.Context, in *syncer.OrphanInput, a syncer.Action) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	if _, err := r.Down.UpdateVolume(ctx, a.Object); err != nil && !syncer.IsOutdated(err, connection.Volumes.GroupResource(), a.Object.GetName()) {
		return r.volumeRefused(in, "keeping a volume", err)
	}
	in.Volume = syncer.Volume{}
	return nil
}

// volumeRefused turns a refusal into input for the next plan; silence is returned.
func (r *Reconciler) volumeRefused(in *syncer.OrphanInput, doing string, err error) error {
	if syncer.IsSilence(err) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	in.Failure = syncer.VolumeFailure(doing, err)
	return nil
}

// delete removes it, by UID. What the physical cluster says against it comes
// back as a failure.
func (r *Reconciler) delete(ctx context.Context, in syncer.OrphanInput, a syncer.Action) (*syncer.Failure, error) {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	err := r.client(in.Kind, in.Orphan).Delete(ctx, in.Physical.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &a.UID}, PropagationPolicy: &a.Propagation,
	})
	unclear := syncer.NotFoundOf(err, syncer.OrphanedObject(in.Orphan)) == syncer.NotFoundUnclear
	if err == nil || apierrors.IsNotFound(err) && !unclear || apierrors.IsConflict(err) {
		klog.FromContext(ctx).Info("Deleted an orphan on the physical cluster, as ordered", "uid", a.UID, "orphan", in.Orphan.Name)
		return nil, nil
	}
	refusalOf := syncer.RefusalOf
	if in.Kind.Carries {
		refusalOf = syncer.CarriedRefused
	}
	if failure, refused := refusalOf(err, in.Kind); refused {
		return &failure, nil
	}
	return nil, fmt.Errorf("deleting an orphan: %w", err)
}
