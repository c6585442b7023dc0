package syncer

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ExpiresAt says when a finished object wants to be removed; ok is false if it does
// not, or has not finished. Those that were mirrored are the business of the physical
// cluster.
func ExpiresAt(kind workload.Kind, obj *unstructured.Unstructured) (at time.Time, ok bool) {
	if len(kind.TTL) == 0 || observedOnly(obj) || len(stamp.TargetsOf(obj.GetAnnotations())) == 0 {
		return at, false
	}
	last := len(kind.TTL) - 1
	ttl, ok := integer(descend(obj.Object, kind.TTL[:last]), kind.TTL[last])
	if !ok {
		return at, false
	}
	for _, c := range list(field(obj.Object, "status"), "conditions") {
		if name, _ := c["type"].(string); slices.Contains(kind.Finished.Conditions, name) && c["status"] == "True" {
			text, _ := c["lastTransitionTime"].(string)
			since, err := time.Parse(time.RFC3339, text)
			return since.Add(time.Duration(ttl) * time.Second), err == nil
		}
	}
	return at, false
}
