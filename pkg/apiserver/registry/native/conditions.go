package native

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// stampConditions sets since when the conditions of a physical cluster are what they are: policies say
// for how long silence is borne, by the clock of the server. That of a syncer is another machine's, which
// may be wrong by hours, and a syncer may be one that nobody trusts.
//
//	before          written with       then
//	not there       any time           now
//	there           the time it had    the time it had
//	there           another time       now
func stampConditions(obj, old runtime.Object) {
	before := old.(*fleet.PhysicalCluster).Status.Conditions
	conditions := obj.(*fleet.PhysicalCluster).Status.Conditions
	now := metav1.Now().Rfc3339Copy() // as it is stored: else the next write would differ
	for i := range conditions {
		c := &conditions[i]
		if b := apimeta.FindStatusCondition(before, c.Type); b == nil || !b.LastTransitionTime.Equal(&c.LastTransitionTime) {
			c.LastTransitionTime = now
		}
	}
}
