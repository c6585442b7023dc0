package copies

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const workers = 16

// Config is what a Controller needs.
type Config struct {
	// Client and its twins are scoped by context.
	Client         versioned.Interface
	MetadataClient metadata.Interface
	Dynamic        dynamic.Interface
	// Kinds are those that have copies.
	Kinds workload.Source
	// Copies holds all Copies.
	Copies *copyindex.Informer
	// Metadata tells of deleted objects and changed targets.
	Metadata *controller.Metadata
	// PhysicalClusters tells which targets may have been given up; nil means none.
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	// Decide decides; default: Decide. The simulation plants mistakes here.
	Decide func(metav1.Object, []*placementv1alpha1.Copy, func(target string) bool) Verdict
}

// key names a logical object.
type key struct {
	Resource schema.GroupVersionResource
	Object   controller.Request
}

// String is for logs.
func (k key) String() string { return k.copied().String() }

// LogicalCluster makes the queue loop reconcile in the scope of the object.
func (k key) LogicalCluster() logicalcluster.Name { return k.Object.Cluster }

// isNamespace: a Namespace is not in one, and ends after everything in it.
func (k key) isNamespace() bool { return k.Resource.Group == "" && k.Resource.Resource == "namespaces" }

func (k key) copied() copyindex.Object {
	return copyindex.Object{Resource: k.Resource.GroupResource(), Object: k.Object}
}

func (s *Controller) keyOfCopy(c *placementv1alpha1.Copy) (key, bool) {
	o := copyindex.ObjectOf(c)
	kind, ok := s.Kinds.Current().ByResource(o.Resource)
	return key{Resource: kind.GroupVersionResource(), Object: o.Object}, ok
}

// Controller ends the life of Copies.
type Controller struct {
	Config
	queue *controller.Controller[key]
}

// New makes a Controller.
func New(c Config) *Controller {
	if c.Decide == nil {
		c.Decide = Decide
	}
	s := &Controller{Config: c}
	s.queue = controller.New("copies", workers, s.reconcile)
	return s
}

// Run works until ctx is done.
func (s *Controller) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	if s.Copies.WaitForSync(ctx) != nil || s.Metadata.WaitForSync(ctx) != nil {
		return
	}
	if s.PhysicalClusters != nil && s.PhysicalClusters.WaitForSync(ctx) != nil {
		return
	}
	s.Copies.Handle(func(old, new *placementv1alpha1.Copy) {
		if new != nil && (removed(new) || new.Status.Controller != nil || old != nil && old.Status.Controller != nil) {
			s.enqueueCopy(new)
		}
	})
	later := placed.Follow(s.Kinds, s.Metadata, s.observe)
	if s.PhysicalClusters != nil {
		s.PhysicalClusters.Handle(s.clusterChanged)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { later(ctx) })
	s.queue.Run(ctx)
}

// observe looks at an object about which its Copies may have something to say.
func (s *Controller) observe(kind workload.Kind, old, new *metav1.PartialObjectMetadata) {
	k := key{Resource: kind.GroupVersionResource()}
	switch {
	case new == nil:
		k.Object = controller.RequestFor(old)
		if !k.isNamespace() && len(copyindex.Of(s.Copies, k.copied())) == 0 {
			return // nothing is left of it; a Copy that is on its way is seen when it is Removed
		}
	case hasFinalizer(new) && (new.DeletionTimestamp != nil && concerns(new) || hasRemoving(new)), stopping(new) && concerns(new):
		k.Object = controller.RequestFor(new)
		if !k.isNamespace() && s.waits(new, copyindex.Of(s.Copies, k.copied())) {
			return
		}
	case adopted(new):
		k.Object = controller.RequestFor(new)
		if len(copyindex.Of(s.Copies, k.copied())) == 0 {
			return
		}
	default:
		return
	}
	s.queue.Enqueue(k)
}

func (s *Controller) enqueueCopy(c *placementv1alpha1.Copy) {
	if k, ok := s.keyOfCopy(c); ok {
		s.queue.Enqueue(k)
	}
}

// concerns says that an object that is being deleted waits for more than its end where it was mirrored from.
func concerns(obj metav1.Object) bool {
	return !stamp.Mirrored(obj)
}

// waits says that by what the informers have there is nothing to take note of yet: an acknowledgement, or the end of
// a physical cluster, has the object looked at. Nobody reads it until then.
func (s *Controller) waits(obj metav1.Object, copies []*placementv1alpha1.Copy) bool {
	if slices.ContainsFunc(stamp.TargetsOf(obj.GetAnnotations()).Names(), s.mayBeGivenUp) || Claim(obj, copies) != nil {
		return false
	}
	return s.Decide(obj, copies, func(string) bool { return false }).isNothing()
}

// adopted says that an object had a copy before it came to mirror what a
// controller below keeps.
func adopted(obj metav1.Object) bool {
	for _, t := range stamp.TargetsOf(obj.GetAnnotations()) {
		if t.Adopted {
			return true
		}
	}
	return false
}

func hasRemoving(obj metav1.Object) bool {
	for _, t := range stamp.TargetsOf(obj.GetAnnotations()) {
		if t.State == placementv1alpha1.TargetStateRemoving {
			return true
		}
	}
	return false
}

// placeable says whether objects of a resource may have copies.
func (s *Controller) placeable(gvr schema.GroupVersionResource) bool {
	_, ok := s.Kinds.Current().ByResource(gvr.GroupResource())
	return ok
}

// reconcile takes note of what the Copies of one object say.
func (s *Controller) reconcile(ctx context.Context, k key) (controller.Result, error) {
	copies := copyindex.Of(s.Copies, k.copied())
	obj, err := s.live(ctx, k)
	if err != nil {
		return controller.Result{}, err
	}
	if obj == nil && len(copies) == 0 && !k.isNamespace() {
		return controller.Result{}, nil
	}
	var object metav1.Object
	if obj != nil {
		object = obj
	}
	if obj != nil {
		if c := Claim(obj, copies); c != nil {
			// What follows from it is decided when the object is seen to have changed.
			if err := s.adopt(ctx, k, obj, c); err != nil {
				return controller.Result{}, err
			}
		}
	}
	given, err := s.givenUp(ctx, k, object, copies)
	if err != nil {
		return controller.Result{}, err
	}
	v := s.Decide(object, copies, func(target string) bool { return given[target] })
	if k.isNamespace() && (obj == nil || v.Finalizer && obj.DeletionTimestamp != nil) {
		// What is in the Namespace goes before our finalizer does: a Namespace that
		// is made again under the name starts without a decision.
		if err := s.sweep(ctx, k.Object, obj); err != nil {
			return controller.Result{}, err
		}
	}
	if obj != nil && v.Finish {
		// Seen to be finished, it comes back here.
		return controller.Result{}, s.finish(ctx, k, obj)
	}
	if remembered, err := s.remembered(ctx, k, obj, v); err != nil || !remembered {
		return controller.Result{RequeueAfter: time.Second}, err
	}
	if obj != nil && (v.Finalizer || v.Drop) {
		if stand, err := s.acknowledgementsStand(ctx, obj, copies); err != nil || !stand {
			return controller.Result{RequeueAfter: time.Second}, err
		}
		if err := s.write(ctx, k, obj, v); err != nil {
			return controller.Result{}, err
		}
	}
	for _, c := range v.Delete {
		if err := s.deleteCopy(ctx, c); err != nil {
			return controller.Result{}, err
		}
	}
	return controller.Result{}, nil
}

// live asks the server for the object: only that shows that it is gone. nil is
// gone.
func (s *Controller) live(ctx context.Context, k key) (*metav1.PartialObjectMetadata, error) {
	obj, err := s.MetadataClient.Resource(k.Resource).Namespace(k.Object.Namespace).Get(ctx, k.Object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !s.unserved(k, err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return obj, nil
}

// unserved says that the answer is about the resource, which a logical cluster may cease to
// serve in the declared version, and not about the object.
func (s *Controller) unserved(k key, err error) bool {
	kind, ok := s.Kinds.Current().ByResource(k.Resource.GroupResource())
	return ok && kind.Declared && !syncer.IsGone(err, k.Resource.GroupResource(), k.Object.Name)
}
