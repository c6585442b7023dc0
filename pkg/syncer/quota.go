package syncer

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Enforced says whether a ResourceQuota of a physical cluster limits anything yet.
// Admission there goes by status.hard, which the quota controller fills in once it
// has counted.
func Enforced(quota *unstructured.Unstructured) bool {
	asked, _, _ := unstructured.NestedMap(quota.Object, "spec", "hard")
	enforced, _, _ := unstructured.NestedMap(quota.Object, "status", "hard")
	for name := range asked {
		if _, ok := enforced[name]; !ok {
			return false
		}
	}
	return true
}
