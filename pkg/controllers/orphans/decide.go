package orphans

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// orderFor is the order that an Orphan is to get from its PhysicalCluster; empty
// if it has one, or is none of those that are meant.
func orderFor(o *fleetv1alpha1.Orphan, pc *fleetv1alpha1.PhysicalCluster) fleetv1alpha1.OrphanOrder {
	all := pc.Spec.Orphans
	if all == nil || o.Spec.Order != "" || o.Spec.PhysicalCluster != pc.Name || o.CreationTimestamp.After(all.FoundBefore.Time) {
		return ""
	}
	return all.Order
}

// answer is what the server said when it was asked for the claimed object.
type answer struct {
	// noCluster: there is no such logical cluster.
	noCluster bool
	// uid is that of the object of the name; empty if there is none.
	uid types.UID
}

// exists is the condition for an answer, about the present generation.
//
//	logical cluster   the object of the name       ObjectExists
//	is gone           -                            False, NoLogicalCluster
//	is there          none                         False, NotFound
//	is there          has another UID              False, OtherUID
//	is there          has the UID of the mark      True, Exists
func exists(kind workload.Kind, o *fleetv1alpha1.Orphan, a answer) metav1.Condition {
	claim := o.Spec.Claim
	what := kind.Kind + " " + claim.Name
	where := " in namespace " + claim.Namespace + " of logical cluster " + claim.LogicalCluster
	c := metav1.Condition{Type: fleetv1alpha1.ConditionObjectExists, Status: metav1.ConditionFalse, ObservedGeneration: o.Generation}
	switch a.uid {
	case claim.UID:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, fleetv1alpha1.ReasonExists, what+" exists"+where+", and has no copy on "+o.Spec.PhysicalCluster
	case "":
		c.Reason, c.Message = fleetv1alpha1.ReasonNotFound, "there is no "+what+where
	default:
		c.Reason, c.Message = fleetv1alpha1.ReasonOtherUID, what+where+" is another one: that with UID "+string(claim.UID)+" is gone"
	}
	if a.noCluster {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, fleetv1alpha1.ReasonNoLogicalCluster, "there is no logical cluster "+claim.LogicalCluster
	}
	return c
}
