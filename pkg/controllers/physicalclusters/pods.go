package physicalclusters

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// publishPodsAccess says in the status how pods reach the control plane, and in a condition
// whether they do. Servers that are started with different flags would
// take turns here: the flag is one of the control plane, as the issuer of tokens is.
func (c *Controller) publishPodsAccess(pc *fleetv1alpha1.PhysicalCluster, now time.Time) {
	condition := metav1.Condition{
		Type: fleetv1alpha1.ConditionPodsReachServer, Status: metav1.ConditionFalse, Reason: "NoAddress",
		Message:            "nobody said how pods reach the control plane, so that they get no token for it: set spec.pods.server, or --pods-server of the servers",
		ObservedGeneration: pc.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	pc.Status.Pods = nil
	if server := cmp.Or(pc.Spec.Pods.Server, c.PodsServer); server != "" && len(c.CA) > 0 {
		pc.Status.Pods = &fleetv1alpha1.PodsAccess{Server: server, CABundle: c.CA}
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "AddressKnown", "pods reach the control plane at "+server
	}
	meta.SetStatusCondition(&pc.Status.Conditions, condition)
}
