package admission

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// request is one write with what the steps share.
type request struct {
	admission.Attributes
	cluster logicalcluster.Name
	// system: the control plane itself. syncer: the physical cluster whose syncer
	// writes. Neither: a user.
	system bool
	syncer string
	// kinds are those that there are, from the first step to the last.
	kinds workload.Catalog
	// obj and old are nil where the operation has none.
	obj, old metav1.Object

	lookup    *lookup
	namespace *corev1.Namespace
	// belongs is what is known of the units of the object, see units.of.
	belongs *belonging
	// division is how the replicas of the object are divided, once its unit is known.
	division *placementv1alpha1.DecidedDivision
	// wish is what is divided of it; nil if nothing is, or it is not known yet.
	wish *stamp.Wish
	// overrides are what changes of the copies of the object, once its unit is known.
	overrides []placementv1alpha1.DecidedOverride
}

// newRequest tells who asks. A request about the view of a physical cluster
// comes from its syncer, also when the server itself makes it: the syncer may
// run in this process.
func newRequest(ctx context.Context, a admission.Attributes, l *lookup) (*request, error) {
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok || cluster == scope.Wildcard {
		return nil, fmt.Errorf("a write must name one logical cluster")
	}
	r := &request{Attributes: a, cluster: cluster, kinds: l.kindsFor(cluster, a), lookup: l}
	u := a.GetUserInfo()
	if u == nil {
		return nil, fmt.Errorf("the request has no user")
	}
	target, viewed := scope.TargetFrom(ctx)
	own, isSyncer := auth.SyncerOf(u)
	switch {
	case isSyncer && viewed && own != target:
		return nil, fmt.Errorf("the syncer of %s may not act as that of %s", own, target)
	case isSyncer:
		r.syncer = own
	case viewed && auth.IsSystem(u):
		r.syncer = target
	case viewed:
		return nil, fmt.Errorf("the view of physical cluster %s is for its syncer", target)
	default:
		r.system = auth.IsSystem(u)
	}
	return r, nil
}

// user reports whether neither the control plane nor a syncer asks.
func (r *request) user() bool { return !r.system && r.syncer == "" }

// freshness is how fresh what a request is compared with has to be. The answer to a user
// knows of all that was written before, through whichever server: who writes a Deployment and
// then its Service is told where that goes. The control plane comes again if a watch cache was
// behind.
func (r *request) freshness() metav1.ListOptions {
	if r.user() {
		return metav1.ListOptions{}
	}
	return cached
}

// cached is as the watch cache has it.
var cached = metav1.ListOptions{ResourceVersion: "0"}

func (r *request) groupResource() schema.GroupResource { return r.GetResource().GroupResource() }

var namespacesResource = corev1.Resource("namespaces")

// isNamespace reports whether the request is about a Namespace.
func (r *request) isNamespace() bool { return r.groupResource() == namespacesResource }

// virtual resources are questions, never stored.
func (r *request) virtual() bool {
	switch r.GetResource().Group {
	case "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return false
}

// isSubresourceCreate: the object is not the kind itself but, say, a Binding or
// a TokenRequest.
func (r *request) isSubresourceCreate() bool {
	return r.GetOperation() == admission.Create && r.GetSubresource() != ""
}

// getNamespace is the namespace of the request, from the informer if it has it,
// and read once.
func (r *request) getNamespace(ctx context.Context) (*corev1.Namespace, error) {
	if r.namespace == nil {
		namespace, err := r.lookup.namespace(ctx, r.cluster, r.GetNamespace())
		if err != nil {
			return nil, err
		}
		r.namespace = namespace
	}
	return r.namespace, nil
}

// getLiveNamespace reads the namespace from the server.
func (r *request) getLiveNamespace(ctx context.Context) (*corev1.Namespace, error) {
	namespace, err := r.lookup.liveNamespace(ctx, r.cluster, r.GetNamespace())
	if err != nil {
		return nil, err
	}
	r.namespace = namespace
	return namespace, nil
}
