package status

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/lru"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const workers = 16

// Config is what a Controller needs.
type Config struct {
	// Dynamic is scoped by context.
	Dynamic dynamic.Interface
	// Kinds are those that have copies.
	Kinds workload.Source
	// Copies holds all Copies.
	Copies *copyindex.Informer
	// Metadata tells of changed targets; resources that it lacks are left out.
	Metadata *controller.Metadata
	// PhysicalClusters say which syncers know of Manifests; nil: all do.
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	// Summarize decides; default: that of pkg/syncer. The simulation plants mistakes
	// here.
	Summarize func(workload.Kind, *unstructured.Unstructured, []*placementv1alpha1.Copy, time.Time) (map[string]any, bool)
}

// key names a logical object.
type key = copyindex.Object

// Controller summarizes.
type Controller struct {
	Config
	queue *controller.Controller[key]
	now   func() time.Time
	// written has what was written and has not come back.
	written *controller.Written[key, *metav1.ObjectMeta]
	// outcomes has the outcome of the last look at an object, by key.
	outcomes *lru.Cache
	// rules has compiled rules by their text.
	rules *lru.Cache
}

// remembered is how many outcomes are remembered; an object of which it is not is
// read once more.
const remembered = 4096

// New makes a Controller.
func New(c Config) *Controller {
	if c.Summarize == nil {
		c.Summarize = syncer.Summarize
	}
	s := &Controller{Config: c, now: time.Now, written: controller.NewWritten[key, *metav1.ObjectMeta](), outcomes: lru.New(remembered), rules: lru.New(fleetv1alpha1.MaxPlacedKinds)}
	s.queue = controller.New("status", workers, s.reconcile)
	return s
}

// Run works until ctx is done.
func (s *Controller) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	if s.Copies.WaitForSync(ctx) != nil {
		return
	}
	s.Copies.Handle(func(old, new *placementv1alpha1.Copy) {
		c := new
		if c == nil {
			c = old
		}
		if kind, ok := s.Kinds.Current().ByResource(schema.GroupResource{Group: c.Spec.Object.Group, Resource: c.Spec.Object.Resource}); ok && syncer.HasStatus(kind) && (saysMore(old, new) || kind.Carries && saysWhether(old, new)) {
			s.queue.Enqueue(copyindex.ObjectOf(c))
		}
	})
	var replayed atomic.Bool
	later := placed.Follow(s.Kinds, s.Metadata, func(kind workload.Kind, old, new *metav1.PartialObjectMetadata) {
		if new == nil || !syncer.HasStatus(kind) {
			return
		}
		k := key{Resource: kind.GroupResource(), Object: controller.RequestFor(new)}
		own := s.written.Arrived(k, new)
		if targetsOf(old) == targetsOf(new) && (own || !onlyStatus(old, new)) {
			return
		}
		if old == nil && replayed.Load() && len(copyindex.Of(s.Copies, k)) == 0 && !kind.Carries {
			return // it is new, and nobody has said anything
		}
		s.queue.Enqueue(k)
	})
	replayed.Store(true)
	s.followRevisions()
	s.followFeatures()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { later(ctx) })
	s.queue.Run(ctx)
}

// saysMore tells news of a Copy from what does not concern the status: a Copy that
// has nothing to say is as good as none.
func saysMore(old, new *placementv1alpha1.Copy) bool {
	nothing := placementv1alpha1.CopyStatus{}
	before, now := &nothing, &nothing
	if old != nil {
		before = &old.Status
	}
	if new != nil {
		now = &new.Status
	}
	return old != nil && new != nil && old.Spec != new.Spec ||
		before.ObservedGeneration != now.ObservedGeneration ||
		!bytes.Equal(raw(before.Observed), raw(now.Observed)) || !slices.Equal(before.NoEndpoints, now.NoEndpoints) ||
		(before.State == placementv1alpha1.CopyRemoved) != (now.State == placementv1alpha1.CopyRemoved)
}

// saysWhether tells news about whether a copy is applied, which the status of a Manifest has.
func saysWhether(old, new *placementv1alpha1.Copy) bool {
	if old == nil || new == nil {
		return true
	}
	a, b := old.Status, new.Status
	return a.State != b.State || a.Reason != b.Reason || a.Message != b.Message || a.AppliedGeneration != b.AppliedGeneration || a.Revision != b.Revision
}

func raw(status *runtime.RawExtension) []byte {
	if status == nil {
		return nil
	}
	return status.Raw
}

// onlyStatus says that nothing but the status of a placed object changed: if it
// was not us, what the copies say has to be put back.
func onlyStatus(old, new *metav1.PartialObjectMetadata) bool {
	return old != nil && targetsOf(new) != "" && old.UID == new.UID && old.Generation == new.Generation && old.ResourceVersion != new.ResourceVersion &&
		new.DeletionTimestamp == nil && maps.Equal(old.Labels, new.Labels) && maps.Equal(old.Annotations, new.Annotations) && slices.Equal(old.Finalizers, new.Finalizers)
}

// targetsOf are the targets that shall keep a copy; what was mirrored has its status
// from the syncer.
func targetsOf(obj *metav1.PartialObjectMetadata) string {
	if obj == nil {
		return ""
	}
	targets := stamp.TargetsOf(obj.Annotations)
	for _, t := range targets {
		if t.State != placementv1alpha1.TargetObserved {
			return targets.String()
		}
	}
	return ""
}

// reconcile writes the status of one object if it is not what its Copies say.
func (s *Controller) reconcile(ctx context.Context, k key) (controller.Result, error) {
	kind, ok := s.Kinds.Current().ByResource(k.Resource)
	if !ok {
		return controller.Result{}, nil
	}
	if s.settled(k, kind) {
		return controller.Result{}, nil
	}
	if obj, _, watched := s.known(k, kind); watched && ended(obj, copyindex.Of(s.Copies, k)) {
		return controller.Result{}, nil
	}
	client := s.Dynamic.Resource(kind.GroupVersionResource()).Namespace(k.Object.Namespace)
	obj, err := s.read(ctx, client, k)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	copies := copyindex.Of(s.Copies, k)
	basis := s.basis(k, kind, obj.GetUID(), copies)
	if node := syncer.NodeOf(kind, obj, copies); node != "" {
		// Before anybody sees it run.
		obj, err = bind(ctx, client, obj, node)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
	}
	now := s.now()
	forgot, left := syncer.Forget(kind, obj, now)
	status, changed := s.Summarize(kind, obj, copies, now)
	if kind.Status.Rule != "" {
		if status, changed, err = s.ruled(ctx, kind, obj, copies, status); err != nil {
			return controller.Result{}, err
		}
	}
	if kind.Carries {
		current, _, _ := unstructured.NestedMap(obj.Object, "status")
		status = syncer.WithOldSyncers(obj, status, copies, s.lacksManifests)
		changed = !syncer.SameStatus(status, current)
	}
	if s.number(k, obj) || changed || forgot {
		if changed {
			obj.Object["status"] = status
		}
		obj.SetManagedFields(nil) // the server keeps its own
		updated, err := client.UpdateStatus(ctx, obj, metav1.UpdateOptions{FieldManager: syncer.FieldManager})
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if apierrors.IsInvalid(err) {
			return controller.Result{}, controller.TerminalError(fmt.Errorf("writing the status: %w", err))
		}
		if err != nil {
			return controller.Result{}, fmt.Errorf("writing the status: %w", err)
		}
		obj = updated
		s.written.Put(k, &metav1.ObjectMeta{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()})
		s.outcomes.Remove(k)
	}
	if left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	result, err := s.expire(ctx, kind, client, obj)
	if err == nil && result.RequeueAfter == 0 {
		s.outcomes.Add(k, outcome{version: obj.GetResourceVersion(), basis: basis})
	}
	return result, err
}

// read asks the watch cache of the server, and etcd for what is not there (yet).
// What others wrote since then does no harm: a write has the version as
// precondition, and they make us look again. Our own writes do not, so the object is
// not older than the last of them.
func (s *Controller) read(ctx context.Context, client dynamic.ResourceInterface, k key) (*unstructured.Unstructured, error) {
	notOlderThan := cmp.Or(s.written.Version(k), "0")
	obj, err := client.Get(ctx, k.Object.Name, metav1.GetOptions{ResourceVersion: notOlderThan})
	if apierrors.IsNotFound(err) {
		return client.Get(ctx, k.Object.Name, metav1.GetOptions{})
	}
	return obj, err
}

// expire removes an object when its time to live after its end is over.
func (s *Controller) expire(ctx context.Context, kind workload.Kind, client dynamic.ResourceInterface, obj *unstructured.Unstructured) (controller.Result, error) {
	end, ok := syncer.ExpiresAt(kind, obj)
	if !ok || obj.GetDeletionTimestamp() != nil {
		return controller.Result{}, nil
	}
	if left := end.Sub(s.now()); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	background := metav1.DeletePropagationBackground
	err := client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("removing what has expired: %w", err)
	}
	return controller.Result{}, nil
}
