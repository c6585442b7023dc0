package transition

import (
	"cmp"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
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
func hasAddress(c *placementv1alpha1.Copy) bool { return len(addresses(observed(c))) > 0 }

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

// on are the Copies of an object on some targets.
func (o Object) on(targets []string) []*placementv1alpha1.Copy {
	var out []*placementv1alpha1.Copy
	for _, name := range targets {
		if c := o.Copies[name]; c != nil && c.Status.State != placementv1alpha1.CopyRemoved {
			out = append(out, c)
		}
	}
	return out
}

func synced(c *placementv1alpha1.Copy, generation int64) bool {
	return c != nil && applied(c) && c.Status.AppliedGeneration >= generation
}

// applied says that a copy is in place, of whatever generation.
func applied(c *placementv1alpha1.Copy) bool { return c.Status.State == placementv1alpha1.CopySynced }

// tried says that a syncer has found out that an object cannot be in place now. What nobody
// has tried yet may be there in a moment, as it may be where it was.
func tried(c *placementv1alpha1.Copy) bool {
	return c != nil && (c.Status.State != placementv1alpha1.CopyPending || c.Status.Message != "")
}

func why(c *placementv1alpha1.Copy) string {
	if c == nil {
		return "there is no copy yet"
	}
	return cmp.Or(c.Status.Message, c.Status.Reason, "it is not in place yet")
}

// wanted is how many pods of an object are wanted on a target, beside the Copy there;
// counts is false if it is no kind that says.
func wanted(o Object, c *placementv1alpha1.Copy) (n int64, counts bool) {
	if len(o.Kind.Replicas) > 0 {
		n, ok, err := unstructured.NestedInt64(o.Logical.Object, o.Kind.Replicas...)
		if err != nil || !ok {
			n = 1
		}
		return stamp.ReplicasOn(o.Logical, c.Spec.PhysicalCluster, n), true
	}
	status := observed(c)
	if desired, ok := number(status, "desiredNumberScheduled"); ok {
		return max(desired, 1), true
	}
	return 0, false
}

// availableIn is how many pods a Copy says are available.
func availableIn(c *placementv1alpha1.Copy) int64 {
	status := observed(c)
	if n, ok := number(status, "availableReplicas"); ok {
		return n
	}
	n, _ := number(status, "numberAvailable")
	return n
}
