package mirrors

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	workers = 4
	// podsDelay is when an object is looked at again whose Pods end before it does.
	podsDelay = 100 * time.Millisecond
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
)

// Config is what a Controller needs.
type Config struct {
	// Client and its twin are scoped by context.
	Client         versioned.Interface
	MetadataClient metadata.Interface
	// Kinds are those of which objects are mirrored: none of them comes or goes.
	Kinds workload.Source
	// Metadata tells of what is mirrored, and of Namespaces.
	Metadata         *controller.Metadata
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
}

// key names an object that was mirrored.
type key struct {
	Resource schema.GroupVersionResource
	Object   controller.Request
}

// String is for logs.
func (k key) String() string { return k.Resource.Resource + " " + k.Object.String() }

// LogicalCluster makes the queue loop reconcile in the scope of the object.
func (k key) LogicalCluster() logicalcluster.Name { return k.Object.Cluster }

// Controller ends what was mirrored.
type Controller struct {
	Config
	queue *controller.Controller[key]
}

// New makes a Controller.
func New(c Config) *Controller {
	s := &Controller{Config: c}
	s.queue = controller.New("mirrors", workers, s.reconcile)
	return s
}

// Run works until ctx is done.
func (s *Controller) Run(ctx context.Context) {
	defer s.queue.ShutDown()
	if s.Metadata.WaitForSync(ctx) != nil || s.PhysicalClusters.WaitForSync(ctx) != nil {
		return
	}
	for kind, informer := range s.informers() {
		informer.Handle(func(_, new *metav1.PartialObjectMetadata) {
			if new != nil {
				s.observe(kind, new)
			}
		})
	}
	s.Metadata.For(namespaces).Handle(s.namespaceChanged)
	s.PhysicalClusters.Handle(s.physicalClusterChanged)
	s.queue.Run(ctx)
}

// informers are those of the kinds of which objects are mirrored and which this server has.
func (s *Controller) informers() iter.Seq2[workload.Kind, *placed.Informer] {
	return func(yield func(workload.Kind, *placed.Informer) bool) {
		for _, kind := range s.Kinds.Current().Observed() {
			if informer := placed.Of(s.Metadata, kind); informer != nil && !yield(kind, informer) {
				return
			}
		}
	}
}

// observe has an object read that ends by what the informers have. One whose Namespace they lack is looked at when
// that comes.
func (s *Controller) observe(kind workload.Kind, obj *metav1.PartialObjectMetadata) {
	target, ok := source(obj)
	if !ok {
		return
	}
	physicalCluster, _ := s.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
	var namespace metav1.Object
	if known, ok := s.Metadata.For(namespaces).Get(controller.Request{Cluster: logicalcluster.From(obj), Name: obj.Namespace}); ok {
		namespace = known
	}
	if Ends(kind, target, physicalCluster, namespace) {
		s.queue.Enqueue(key{Resource: kind.GroupVersionResource(), Object: controller.RequestFor(obj)})
	}
}

// namespaceChanged looks at what is mirrored in a Namespace that has left a target, or has just come.
func (s *Controller) namespaceChanged(old, new *metav1.PartialObjectMetadata) {
	if new == nil || old != nil && stamp.SameTargets(old, new) {
		return
	}
	for kind, informer := range s.informers() {
		for _, obj := range informer.ListNamespace(logicalcluster.From(new), new.Name) {
			s.observe(kind, obj)
		}
	}
}

// physicalClusterChanged looks at everything that is mirrored once a physical cluster is given up.
func (s *Controller) physicalClusterChanged(old, new *fleetv1alpha1.PhysicalCluster) {
	if new != nil && (!new.Spec.Forget || old != nil && old.Spec.Forget) {
		return
	}
	for kind, informer := range s.informers() {
		for _, obj := range informer.List() {
			s.observe(kind, obj)
		}
	}
}

// reconcile deletes an object if it ends by what the server has.
func (s *Controller) reconcile(ctx context.Context, k key) (controller.Result, error) {
	client := s.MetadataClient.Resource(k.Resource).Namespace(k.Object.Namespace)
	obj, err := client.Get(ctx, k.Object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	kind, known := s.Kinds.Current().ObservedByResource(k.Resource.GroupResource())
	target, mirrored := source(obj)
	if !known || !mirrored {
		return controller.Result{}, nil
	}
	ends, err := s.ends(ctx, kind, target, k.Object)
	if err != nil || !ends {
		return controller.Result{}, err
	}
	if first, err := s.podsOf(ctx, kind, target, k.Object.Cluster, obj); err != nil || len(first) > 0 {
		for _, name := range first {
			s.queue.Enqueue(key{Resource: pods, Object: controller.Request{Cluster: k.Object.Cluster, Namespace: k.Object.Namespace, Name: name}})
		}
		return controller.Result{RequeueAfter: podsDelay}, err
	}
	if patch := stamp.Restamp(obj, stamp.Release); patch != nil {
		if obj, err = client.Patch(ctx, k.Object.Name, types.MergePatchType, patch, metav1.PatchOptions{}); apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, fmt.Errorf("releasing what was mirrored: %w", err)
		}
	}
	err = client.Delete(ctx, k.Object.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), // a Pod with a node would wait for its kubelet
		Preconditions:      &metav1.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("deleting what was mirrored: %w", err)
	}
	return controller.Result{}, nil
}

// podsOf are the Pods mirrored from the same target that an object owns: they end before it does. Those whose
// owner is gone the garbage collector deletes, with their grace, and a syncer that does not know yet that its physical
// cluster is given up carries that down, as it does what a user deletes: what was to stay as it is would be restarted. Those that are being
// deleted already are held by somebody's finalizer, and hold nothing.
func (s *Controller) podsOf(ctx context.Context, kind workload.Kind, target string, cluster logicalcluster.Name, owner metav1.Object) (names []string, _ error) {
	if kind.PodTemplate == nil || kind.IsPod() {
		return nil, nil
	}
	add := func(pod *metav1.PartialObjectMetadata) {
		if from, mirrored := source(pod); mirrored && from == target && pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	if informer := s.Metadata.For(pods); informer != nil {
		for pod := range informer.AllByIndex(controller.OwnerIndex, controller.UIDKey(cluster, owner.GetUID())) {
			add(pod)
		}
	}
	if len(names) > 0 {
		return names, nil // that there are some is believed: those of a namespace are not listed again and again while they end
	}
	list, err := s.MetadataClient.Resource(pods).Namespace(owner.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	for i := range list.Items {
		if slices.ContainsFunc(list.Items[i].OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() }) {
			add(&list.Items[i])
		}
	}
	return names, nil
}

// ends reads what the decision is about, after the object: what is mirrored later, because the physical cluster got
// the Namespace again, is none of this.
func (s *Controller) ends(ctx context.Context, kind workload.Kind, target string, r controller.Request) (bool, error) {
	var namespace metav1.Object
	switch live, err := s.MetadataClient.Resource(namespaces).Get(ctx, r.Namespace, metav1.GetOptions{}); {
	case err == nil:
		namespace = live
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading the namespace: %w", err)
	}
	physicalCluster, err := s.Client.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), target, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		physicalCluster = nil
	} else if err != nil {
		return false, fmt.Errorf("reading physical cluster %s: %w", target, err)
	}
	return Ends(kind, target, physicalCluster, namespace), nil
}
