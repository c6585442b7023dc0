package admission

import (
	"context"
	"errors"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// lookup reads from informers, and from the server what they lack.
type lookup struct {
	kube             kubernetes.Interface
	client           versioned.Interface
	metadata         metadata.Interface
	dynamic          dynamic.Interface
	namespaces       *controller.Informer[*corev1.Namespace]
	logicalClusters  *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	physicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	fromStorage      func() Stored
	placements       *controller.Informer[*placementv1alpha1.Placement]
	kinds            workload.Source
	// objects may be nil, or return nil: see Config.
	objects func() *controller.Metadata
	clock   clock.PassiveClock
	// standstill has for how long the process stood still.
	standstill *controller.Standstill
	// watched is since when silence counts, see placement.Snapshot, and watchedSince.
	watched time.Time
}

// watchedSince is since when silence counts: from a while after the start, and after a standstill, as nobody was heard
// before.
func (l *lookup) watchedSince() time.Time { return l.standstill.Since(l.watched, placement.Silence) }

// behindTimeout is for how long after a standstill informers may be behind what other servers wrote meanwhile.
const behindTimeout = time.Minute

// behind says that this process stood still a moment ago.
func (l *lookup) behind() bool {
	_, ended := l.standstill.Stood()
	return !ended.IsZero() && l.clock.Now().Sub(ended) < behindTimeout
}

// at is a context for own requests about a logical cluster: it keeps the
// deadline of the request, not its view of a physical cluster.
func at(ctx context.Context, cluster logicalcluster.Name) context.Context {
	return scope.With(ctx, scope.Scope{Cluster: cluster})
}

// kindsFor are the kinds that there are to a request. One that is declared, but not placed
// in the logical cluster, is none of them, unless the object has targets from before.
func (l *lookup) kindsFor(cluster logicalcluster.Name, a admission.Attributes) workload.Catalog {
	kinds := workload.In(l.kinds, cluster)
	kind, ok := kinds.ByResource(a.GetResource().GroupResource())
	if !ok || workload.Places(l.kinds, cluster, kind) {
		return kinds
	}
	if old, err := meta.Accessor(a.GetOldObject()); err == nil && stamp.HasTargets(old) {
		return kinds
	}
	return kinds.Undeclared()
}

// stored reads what is stored now.
func (l *lookup) stored() Stored {
	if s := l.fromStorage(); s != nil {
		return s
	}
	return requested{l.client}
}

func (l *lookup) namespace(ctx context.Context, cluster logicalcluster.Name, name string) (*corev1.Namespace, error) {
	if namespace, ok := l.namespaces.Get(controller.Request{Cluster: cluster, Name: name}); ok {
		return namespace, nil
	}
	return l.liveNamespace(ctx, cluster, name)
}

func (l *lookup) liveNamespace(ctx context.Context, cluster logicalcluster.Name, name string) (*corev1.Namespace, error) {
	return l.kube.CoreV1().Namespaces().Get(at(ctx, cluster), name, metav1.GetOptions{})
}

// objectAt is the object of a request at a resource version.
func (l *lookup) objectAt(ctx context.Context, r *request, version string) (*unstructured.Unstructured, error) {
	if l.dynamic == nil {
		return nil, errors.New("there is no client")
	}
	namespace := r.GetNamespace()
	if r.isNamespace() {
		namespace = "" // a Namespace is said to be in itself
	}
	list, err := l.dynamic.Resource(r.GetResource()).Namespace(namespace).List(at(ctx, r.cluster), metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, r.GetName()).String(),
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, apierrors.NewNotFound(r.groupResource(), r.GetName())
	}
	return &list.Items[0], nil
}

// forgotten reports whether a physical cluster was given up.
func (l *lookup) forgotten(target string) bool {
	pc, ok := l.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
	return ok && pc.Spec.Forget
}
