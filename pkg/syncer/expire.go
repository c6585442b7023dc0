package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
)

// ExpiresAt says when a finished Job wants to be removed; ok is false if it does
// not, or has not finished. Jobs that were mirrored are the business of the physical
// cluster.
func ExpiresAt(obj *unstructured.Unstructured) (at time.Time, ok bool) {
	if obj.GetKind() != "Job" || observedOnly(obj) || len(stamp.TargetsOf(obj.GetAnnotations())) == 0 {
		return at, false
	}
	ttl, ok := integer(field(obj.Object, "spec"), "ttlSecondsAfterFinished")
	if !ok {
		return at, false
	}
	for _, c := range list(field(obj.Object, "status"), "conditions") {
		if (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True" {
			text, _ := c["lastTransitionTime"].(string)
			since, err := time.Parse(time.RFC3339, text)
			return since.Add(time.Duration(ttl) * time.Second), err == nil
		}
	}
	return at, false
}
