package syncer

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// DeclaredKindsCondition says whether the syncer may work with the declared kinds; nil if
// there are none. forbidden are those that it may not list on the physical cluster.
func DeclaredKindsCondition(declared int, forbidden []string, failure *Failure, generation int64) *metav1.Condition {
	if declared == 0 {
		return nil
	}
	c := &metav1.Condition{Type: fleetv1alpha1.ConditionDeclaredKinds, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonKindsPermitted, ObservedGeneration: generation}
	switch {
	case failure != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, failure.Reason, failure.Message
	case len(forbidden) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, fleetv1alpha1.ReasonKindsForbidden
		c.Message = fmt.Sprintf("the syncer may not list %s: they count as not served; let its account get, list, watch, create, patch and delete them",
			strings.Join(forbidden, ", "))
	}
	return c
}
