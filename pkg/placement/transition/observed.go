package transition

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// observed is the raw status in a Copy; nil if there is none.
func observed(c *placementv1alpha1.Copy) map[string]any {
	if c == nil || c.Status.Observed == nil {
		return nil
	}
	var status map[string]any
	if json.Unmarshal(c.Status.Observed.Raw, &status) != nil {
		return nil
	}
	return status
}

// hasAddress says that a Copy publishes an address.
func hasAddress(c *placementv1alpha1.Copy) bool {
	addresses, _, _ := unstructured.NestedSlice(observed(c), "loadBalancer", "ingress")
	return len(addresses) > 0
}

func number(status map[string]any, name string) (int64, bool) {
	switch n := status[name].(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// Available is how many replicas a Copy says are available; known is false if it says
// nothing.
func Available(c *placementv1alpha1.Copy) (n int32, known bool) {
	if c == nil || c.Status.State == placementv1alpha1.CopyRemoved || observed(c) == nil {
		return 0, false
	}
	return toCount(availableIn(c)), true
}
