package orphans

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	workers = 2
	// recheckInterval is how often the server is asked about an order that is not done.
	recheckInterval = time.Minute
)

// PhysicalClusterIndex finds the Orphans of a physical cluster.
const PhysicalClusterIndex = "orphans.physicalcluster"

// Indexers are the indexers that the informer of Orphans must have.
func Indexers() map[string]func(*fleetv1alpha1.Orphan) []string {
	return map[string]func(*fleetv1alpha1.Orphan) []string{
		PhysicalClusterIndex: func(o *fleetv1alpha1.Orphan) []string { return []string{o.Spec.PhysicalCluster} },
	}
}

// Config is what a Controller needs. The clients take the logical cluster from the
// context and act as the system.
type Config struct {
	Client   versioned.Interface
	Metadata metadata.Interface
	// Kinds are those that have copies.
	Kinds workload.Source
	// Orphans holds all Orphans, with Indexers.
	Orphans          *controller.Informer[*fleetv1alpha1.Orphan]
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
}

// Controller answers what orphans claim, and hands out orders.
type Controller struct {
	Config
	queue *controller.Controller[controller.Request]
}

// New makes a Controller.
func New(c Config) *Controller {
	s := &Controller{Config: c}
	s.queue = controller.New("orphans", workers, s.reconcile)
	return s
}

// Run works until ctx is done.
func (s *Controller) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	if s.Orphans.WaitForSync(ctx) != nil || s.PhysicalClusters.WaitForSync(ctx) != nil {
		return
	}
	s.Orphans.Handle(func(_, new *fleetv1alpha1.Orphan) {
		if new != nil {
			s.queue.Enqueue(controller.RequestFor(new))
		}
	})
	s.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if old != nil && new != nil && equality.Semantic.DeepEqual(old.Spec.Orphans, new.Spec.Orphans) {
			return
		}
		if new == nil {
			new = old
		}
		for _, o := range s.Orphans.ByIndex(PhysicalClusterIndex, new.Name) {
			s.queue.Enqueue(controller.RequestFor(o))
		}
	})
	s.queue.Run(ctx)
}

func (s *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	o, ok := s.Orphans.Get(key)
	if !ok || o.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	pc, ok := s.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: o.Spec.PhysicalCluster})
	if !ok {
		return s.unregistered(ctx, o)
	}
	if o.Spec.Order == "" && len(s.Orphans.ByIndex(PhysicalClusterIndex, o.Spec.PhysicalCluster)) > fleetv1alpha1.MaxOrphans {
		return controller.Result{}, s.remove(ctx, o)
	}
	if order := orderFor(o, pc); order != "" {
		ordered := o.DeepCopy()
		ordered.Spec.Order = order
		_, err := s.Client.FleetV1alpha1().Orphans().Update(ctx, ordered, metav1.UpdateOptions{})
		return controller.Result{}, ignoreGone("writing the order", err) // the watch brings us back
	}
	return s.ask(ctx, o)
}

// unregistered removes what is listed of a physical cluster that the server, asked
// for it, does not know.
func (s *Controller) unregistered(ctx context.Context, o *fleetv1alpha1.Orphan) (controller.Result, error) {
	_, err := s.Client.FleetV1alpha1().PhysicalClusters().Get(ctx, o.Spec.PhysicalCluster, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return controller.Result{}, s.remove(ctx, o)
	case err != nil:
		return controller.Result{}, fmt.Errorf("reading the PhysicalCluster: %w", err)
	}
	return controller.Result{RequeueAfter: time.Second}, nil // our view of it will come
}

func (s *Controller) remove(ctx context.Context, o *fleetv1alpha1.Orphan) error {
	err := s.Client.FleetV1alpha1().Orphans().Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.UID))})
	return ignoreGone("removing the Orphan", err)
}

// ask finds out whether the claimed object exists, and writes what it heard.
func (s *Controller) ask(ctx context.Context, o *fleetv1alpha1.Orphan) (controller.Result, error) {
	kind, ok := syncer.KindOfOrphan(s.Kinds.Current(), o)
	if !ok {
		return controller.Result{}, nil // nothing is ever placed under that name
	}
	a, err := s.answer(ctx, kind, o)
	if err != nil {
		return controller.Result{}, err
	}
	written := o.DeepCopy()
	if apimeta.SetStatusCondition(&written.Status.Conditions, exists(kind, o, a)) {
		if _, err := s.Client.FleetV1alpha1().Orphans().UpdateStatus(ctx, written, metav1.UpdateOptions{}); err != nil {
			return controller.Result{}, ignoreGone("writing the status", err)
		}
	}
	if o.Spec.Order == "" || o.Spec.Order == fleetv1alpha1.OrphanLeave {
		return controller.Result{}, nil
	}
	return controller.Result{RequeueAfter: recheckInterval}, nil
}

func (s *Controller) answer(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (a answer, err error) {
	claim := o.Spec.Claim
	if problem := scope.ValidateName(claim.LogicalCluster); problem != "" {
		return answer{noCluster: true}, nil
	}
	_, err = s.Client.TenancyV1alpha1().LogicalClusters().Get(ctx, claim.LogicalCluster, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return answer{noCluster: true}, nil
	case err != nil:
		return answer{}, fmt.Errorf("asking for the logical cluster: %w", err)
	}
	ref := syncer.ClaimOf(kind, o)
	resource := s.Metadata.Resource(kind.GroupVersionResource())
	get := resource.Namespace(ref.Namespace).Get
	if ref.Namespace == "" {
		get = resource.Get
	}
	obj, err := get(scope.WithCluster(ctx, logicalcluster.Name(claim.LogicalCluster)), ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return answer{}, nil
	case err != nil:
		return answer{}, fmt.Errorf("asking for the claimed object: %w", err)
	}
	return answer{uid: obj.UID}, nil
}

func ignoreGone(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
