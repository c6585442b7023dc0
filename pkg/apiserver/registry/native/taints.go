package native

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// carryTaints sets when a NoExecute taint was added: tolerations with a time count from
// then. Whoever applies a file without it does not begin to count anew.
func carryTaints(obj, old runtime.Object) {
	added := map[corev1.Taint]*metav1.Time{}
	if old != nil {
		for _, t := range old.(*fleet.PhysicalCluster).Spec.Taints {
			added[withoutTime(t)] = t.TimeAdded
		}
	}
	taints := obj.(*fleet.PhysicalCluster).Spec.Taints
	for i := range taints {
		t := &taints[i]
		if t.Effect != corev1.TaintEffectNoExecute || t.TimeAdded != nil {
			continue
		}
		if t.TimeAdded = added[withoutTime(*t)]; t.TimeAdded == nil {
			// In whole seconds, as it is stored: else the next write would differ.
			now := metav1.Now().Rfc3339Copy()
			t.TimeAdded = &now
		}
	}
}

func withoutTime(t corev1.Taint) corev1.Taint {
	t.TimeAdded = nil
	return t
}
