package logicalclusters

import (
	"cmp"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// ContentFinalizer holds a LogicalCluster until nothing is left in it. Whoever
// stores a new LogicalCluster should set it; the controller adds it otherwise.
const ContentFinalizer = "tenancy.atoll.dev/content"

// Condition types of a LogicalCluster.
const (
	ConditionReady          = "Ready"
	ConditionContentRemoved = "ContentRemoved"
)

// Reasons of the conditions.
const (
	ReasonServing         = "Serving"
	ReasonBootstrapFailed = "BootstrapFailed"
	ReasonTerminating     = "Terminating"
	ReasonContentRemains  = "ContentRemains"
	ReasonRemoved         = "Removed"
	ReasonPermanent       = "Permanent"
)

// ForbidDeletion says why the logical cluster must not be deleted; nil if it may.
func ForbidDeletion(name logicalcluster.Name) error {
	if name == scope.Root {
		return fmt.Errorf("logical cluster %q cannot be deleted: it holds all others", scope.Root)
	}
	return nil
}

// follows is what follows from a logical cluster as it is known.
type follows = func(*tenancyv1alpha1.LogicalCluster) tenancyv1alpha1.LogicalClusterStatus

// ready is the status of a logical cluster that serves requests at url; empty: where it says.
func ready(url string) follows {
	return func(lc *tenancyv1alpha1.LogicalCluster) tenancyv1alpha1.LogicalClusterStatus {
		s := *lc.Status.DeepCopy()
		s.Phase, s.URL = tenancyv1alpha1.LogicalClusterReady, cmp.Or(url, s.URL)
		set(&s, lc, ConditionReady, metav1.ConditionTrue, ReasonServing, "")
		return s
	}
}

// broken is the status of a logical cluster whose first objects cannot be made.
func broken(err error) follows {
	return func(lc *tenancyv1alpha1.LogicalCluster) tenancyv1alpha1.LogicalClusterStatus {
		s := *lc.Status.DeepCopy()
		s.Phase = tenancyv1alpha1.LogicalClusterInitializing
		set(&s, lc, ConditionReady, metav1.ConditionFalse, ReasonBootstrapFailed, err.Error())
		return s
	}
}

// terminating is the status of a logical cluster that is being deleted; left
// says what is in it, empty for nothing.
func terminating(left string) follows {
	return func(lc *tenancyv1alpha1.LogicalCluster) tenancyv1alpha1.LogicalClusterStatus {
		s := *lc.Status.DeepCopy()
		s.Phase = tenancyv1alpha1.LogicalClusterTerminating
		set(&s, lc, ConditionReady, metav1.ConditionFalse, ReasonTerminating, "The logical cluster is being deleted.")
		if left == "" {
			set(&s, lc, ConditionContentRemoved, metav1.ConditionTrue, ReasonRemoved, "")
		} else {
			set(&s, lc, ConditionContentRemoved, metav1.ConditionFalse, ReasonContentRemains, left)
		}
		return s
	}
}

// permanent is the status of a logical cluster whose deletion is refused.
func permanent(err error) follows {
	return func(lc *tenancyv1alpha1.LogicalCluster) tenancyv1alpha1.LogicalClusterStatus {
		s := *lc.Status.DeepCopy()
		set(&s, lc, ConditionContentRemoved, metav1.ConditionFalse, ReasonPermanent, err.Error())
		return s
	}
}

func set(s *tenancyv1alpha1.LogicalClusterStatus, lc *tenancyv1alpha1.LogicalCluster, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: lc.Generation,
	})
}
