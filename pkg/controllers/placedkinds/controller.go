package placedkinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	workers = 2
	// batchDelay is how long a declaration waits for more to happen to its objects.
	batchDelay = 500 * time.Millisecond
	// objectWorkers send objects through admission.
	objectWorkers = 4
	// retryInterval is when an object is sent through admission again that no placement of
	// its namespace waits for.
	retryInterval = 15 * time.Second
)

// Config is what a Controller needs. The clients take the logical cluster from the context
// and act as the system.
type Config struct {
	Client   versioned.Interface
	Metadata metadata.Interface
	Catalog  *Catalog
	// Definitions are what logical clusters define.
	Definitions Definitions

	Kinds            *controller.Informer[*fleetv1alpha1.PlacedKind]
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	LogicalClusters  *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	Placements       *controller.Informer[*placementv1alpha1.Placement]
	Copies           *copyindex.Informer
	// Objects has the metadata of all objects.
	Objects *controller.Metadata
}

// Controller says what became of declarations.
type Controller struct {
	Config
	queue   *controller.Controller[controller.Request]
	objects *controller.Controller[object]
	later   func(context.Context)
}

// object names an object of a declared kind.
type object struct {
	Resource schema.GroupResource
	Object   controller.Request
}

// String is for logs.
func (o object) String() string { return o.Resource.String() + " " + o.Object.String() }

// LogicalCluster makes the queue loop reconcile in the scope of the object.
func (o object) LogicalCluster() logicalcluster.Name { return o.Object.Cluster }

// New makes the controller.
func New(c Config) *Controller {
	s := &Controller{Config: c}
	s.queue = controller.New("placedkinds", workers, s.reconcile)
	s.objects = controller.New("placedkinds/objects", objectWorkers, s.admit)
	return s
}

// Defined looks at the declaration of a resource of which a definition has changed.
func (s *Controller) Defined(gr schema.GroupResource) {
	s.queue.Enqueue(controller.Request{Cluster: scope.Root, Name: gr.String()})
}

// Run works until ctx is done.
func (s *Controller) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	defer s.objects.ShutDown()
	for _, wait := range []func(context.Context) error{s.Kinds.WaitForSync, s.PhysicalClusters.WaitForSync, s.LogicalClusters.WaitForSync, s.Copies.WaitForSync} {
		if wait(ctx) != nil {
			return
		}
	}
	s.subscribe()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.later(ctx) })
	running.Go(func() { s.objects.Run(ctx) })
	s.queue.Run(ctx)
}

func (s *Controller) subscribe() {
	s.Kinds.Handle(func(_, new *fleetv1alpha1.PlacedKind) {
		if new != nil {
			s.queue.Enqueue(controller.RequestFor(new))
		}
	})
	s.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if old == nil || new == nil {
			s.all()
		}
	})
	s.LogicalClusters.Handle(func(old, new *tenancyv1alpha1.LogicalCluster) {
		if old == nil || new == nil || old.Generation != new.Generation || !maps.Equal(old.Labels, new.Labels) {
			s.all()
		}
	})
	s.Copies.Handle(func(old, new *placementv1alpha1.Copy) {
		if c := new; old == nil || new == nil {
			if c == nil {
				c = old
			}
			s.changed(schema.GroupResource{Group: c.Spec.Object.Group, Resource: c.Spec.Object.Resource})
		}
	})
	s.later = placed.Follow(s.Catalog, s.Objects, func(kind workload.Kind, old, new *metav1.PartialObjectMetadata) {
		if !kind.Declared {
			return
		}
		if old == nil || new == nil || stamp.HasTargets(old) != stamp.HasTargets(new) || hasFinalizer(old) != hasFinalizer(new) {
			s.changed(kind.GroupResource())
		}
		if new != nil {
			s.offer(kind, new)
		}
	})
}

// changed looks at a declaration once its objects have changed.
func (s *Controller) changed(gr schema.GroupResource) {
	if kind, ok := s.Catalog.Current().ByResource(gr); ok && kind.Declared {
		s.queue.EnqueueAfter(controller.Request{Cluster: scope.Root, Name: gr.String()}, batchDelay)
	}
}

func (s *Controller) all() {
	for _, p := range s.Kinds.List() {
		s.queue.EnqueueAfter(controller.RequestFor(p), batchDelay)
	}
}

// offer has an object sent through admission that should be placed and is not.
func (s *Controller) offer(kind workload.Kind, obj *metav1.PartialObjectMetadata) {
	if s.waits(kind, obj) {
		s.objects.Enqueue(object{kind.GroupResource(), controller.RequestFor(obj)})
	}
}

func (s *Controller) waits(kind workload.Kind, obj *metav1.PartialObjectMetadata) bool {
	return obj.DeletionTimestamp == nil && !stamp.HasTargets(obj) && s.Catalog.Places(logicalcluster.From(obj), kind)
}

// admit sends an object through admission, which stamps it. Where a placement of the
// namespace waits for a decision, the placement controller does that.
func (s *Controller) admit(ctx context.Context, o object) (controller.Result, error) {
	kind, ok := s.Catalog.Current().ByResource(o.Resource)
	if !ok || !kind.Declared {
		return controller.Result{}, nil
	}
	informer := placed.Of(s.Objects, kind)
	if informer == nil {
		return controller.Result{}, nil
	}
	obj, ok := informer.Get(o.Object)
	if !ok || !s.waits(kind, obj) || s.undecided(o.Object) {
		return controller.Result{}, nil
	}
	_, err := s.Metadata.Resource(kind.GroupVersionResource()).Namespace(o.Object.Namespace).
		Patch(ctx, o.Object.Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("having %s %s placed: %w", kind.Kind, o.Object.Name, err)
	}
	return controller.Result{RequeueAfter: retryInterval}, nil
}

func (s *Controller) undecided(object controller.Request) bool {
	return slices.ContainsFunc(s.Placements.ListNamespace(object.Cluster, object.Namespace), func(p *placementv1alpha1.Placement) bool { return p.Spec.Decision == nil })
}

func hasFinalizer(obj metav1.Object) bool {
	return slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer)
}
