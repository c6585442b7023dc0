package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// lifecycle refuses creation in namespaces that do not exist or are going, and
// the deletion of namespaces that have to stay. Upstream's NamespaceLifecycle
// does this by bare names; errors and causes are the same.
type lifecycle struct {
	// leaving holds the namespaces whose deletion was admitted lately: the
	// informer may still call them active.
	leaving *utilcache.LRUExpireCache
}

const (
	leavingTTL = 30 * time.Second
	maxLeaving = 4096
)

type namespaceKey struct {
	cluster logicalcluster.Name
	name    string
}

func newLifecycle(c clock.PassiveClock) *lifecycle {
	return &lifecycle{leaving: utilcache.NewLRUExpireCacheWithClock(maxLeaving, c)}
}

// immortalNamespaces are those of upstream's NamespaceLifecycle. kube-node-lease is
// none of them: it may be deleted, and is made again.
var immortalNamespaces = sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic)

// immortal refuses to delete the namespaces that must stay. The system may:
// a logical cluster that is deleted loses them, too.
func (l *lifecycle) immortal(r *request) error {
	if r.GetOperation() != admission.Delete || r.GetSubresource() != "" || r.system {
		return nil
	}
	name := r.GetName()
	if name == "" && r.old != nil {
		name = r.old.GetName()
	}
	switch {
	case r.isNamespace() && immortalNamespaces.Has(name),
		r.isNamespace() && r.cluster == scope.Root && name == fleetv1alpha1.LeaseNamespace:
		return apierrors.NewForbidden(r.groupResource(), name, errors.New("this namespace may not be deleted"))
	case r.groupResource() == logicalClustersResource && name == scope.Root.String():
		return apierrors.NewForbidden(r.groupResource(), name, errors.New("this logical cluster may not be deleted"))
	}
	return nil
}

func (l *lifecycle) admit(ctx context.Context, r *request) error {
	if err := l.immortal(r); err != nil {
		return err
	}
	if r.GetOperation() == admission.Create && r.user() && !r.virtual() {
		if err := l.leavingCluster(r); err != nil {
			return err
		}
	}
	if r.isNamespace() {
		if r.GetOperation() == admission.Delete && !r.IsDryRun() {
			l.leaving.Add(namespaceKey{r.cluster, r.GetName()}, true, leavingTTL)
		}
		return nil
	}
	if r.GetNamespace() == "" || r.GetOperation() != admission.Create || r.groupResource() == localReviews {
		return nil
	}
	return l.create(ctx, r)
}

// localReviews may be created anywhere: an error would tell whether a namespace
// exists.
var localReviews = schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}

// leavingCluster refuses what would be left in a logical cluster that goes.
func (l *lifecycle) leavingCluster(r *request) error {
	c, ok := r.lookup.logicalClusters.Get(controller.Request{Cluster: scope.Root, Name: r.cluster.String()})
	if !ok || c.DeletionTimestamp == nil {
		return nil
	}
	return admission.NewForbidden(r.Attributes, fmt.Errorf("logical cluster %s is being deleted", r.cluster))
}

func (l *lifecycle) create(ctx context.Context, r *request) error {
	namespace, err := r.getNamespace(ctx)
	if err == nil {
		_, left := l.leaving.Get(namespaceKey{r.cluster, r.GetNamespace()})
		terminating := namespace.Status.Phase == corev1.NamespaceTerminating
		// The informer may not know yet that the namespace was deleted, or that it
		// is a new one of the same name.
		if left || terminating {
			namespace, err = r.getLiveNamespace(ctx)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	case namespace.Status.Phase != corev1.NamespaceTerminating:
		return nil
	case r.syncer != "":
		return nil // what happens below is reported to the end
	}
	return terminating(r)
}

func terminating(r *request) error {
	err := admission.NewForbidden(r.Attributes, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.GetNamespace()))
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", r.GetNamespace()),
			Field:   "metadata.namespace",
		})
	}
	return err
}
