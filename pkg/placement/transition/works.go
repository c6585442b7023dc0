package transition

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Lacks says what keeps the copy of an object on a target from being as its present content
// wants it; empty: nothing.
//
//	the object                                  lacks
//	is going, or shall have no copy there       nothing
//	is not synced, or another change of it is   the reason on the Copy
//	makes pods, and its controller there has    that
//	not seen it
//	makes pods, and fewer than wanted are made  pods
//	by it, or available, or others are left
func (o Object) Lacks(name, revision string) string {
	entry, ok := o.targets()[name]
	if !ok || !entry.Keeps() || o.Logical.GetDeletionTimestamp() != nil {
		return ""
	}
	c := o.Copies[name]
	switch {
	case !synced(c, o.Logical.GetGeneration()):
		return why(c)
	case c.Status.Revision != revision:
		return "the change is not applied yet"
	}
	want, counts := wanted(o, c)
	if !counts {
		return ""
	}
	if c.Status.ObservedGeneration < o.Logical.GetGeneration() {
		return "its controller has not looked at it yet"
	}
	if updated, old, known := turnover(o, c); known && updated < want {
		return fmt.Sprintf("%d of %d pods are updated", updated, want)
	} else if known && old > 0 {
		return fmt.Sprintf("%d pods of before are left", old)
	}
	if have := availableIn(c); have < want {
		return fmt.Sprintf("%d of %d pods are available", have, want)
	}
	return ""
}

// turnover is how many pods are of the present template, and how many are of others. It is
// not known of what replaces pods only when they are deleted, or not all of them.
func turnover(o Object, c *placementv1alpha1.Copy) (updated, old int64, known bool) {
	strategy, _, _ := unstructured.NestedString(o.Logical.Object, "spec", "updateStrategy", "type")
	partition, _, _ := unstructured.NestedInt64(o.Logical.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	if strategy == "OnDelete" || partition > 0 {
		return 0, 0, false
	}
	status, counters := observed(c), o.Kind.Status.Counters
	if slices.Contains(counters, "updatedNumberScheduled") {
		updated, _ = number(status, "updatedNumberScheduled")
		return updated, 0, true
	}
	updated, _ = number(status, "updatedReplicas")
	all, _ := number(status, "replicas")
	return updated, max(0, all-updated), slices.Contains(counters, "updatedReplicas")
}

// Short says what pods of an object are missing on a target, if it is a kind that counts
// them; empty: none, or that is not known.
func (o Object) Short(name string) string {
	entry, ok := o.targets()[name]
	c := o.Copies[name]
	if !ok || !entry.Keeps() || c == nil || c.Status.State == placementv1alpha1.CopyRemoved || o.Logical.GetDeletionTimestamp() != nil || o.Kind.Semantics == workload.JobSemantics {
		return ""
	}
	want, counts := wanted(o, c)
	if have := availableIn(c); counts && have < want {
		return fmt.Sprintf("%d of %d pods are available", have, want)
	}
	return ""
}
