package syncer

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// NodeOf is the node that a Pod of a user is to be bound to: the physical cluster
// that runs it, which is a Node of the logical cluster. It is empty if the Pod has
// one, if nothing runs yet, or if it runs on several.
//
// With a node a Pod is deleted as everywhere: it stays until it has stopped, or its
// time is over.
func NodeOf(kind workload.Kind, logical *unstructured.Unstructured, copies []*placementv1alpha1.Copy) string {
	if !kind.IsPod() || logical.GetDeletionTimestamp() != nil {
		return ""
	}
	if node, _ := field(logical.Object, "spec")["nodeName"].(string); node != "" {
		return ""
	}
	views := viewsOf(logical, copies)
	if len(views) != 1 || len(stamp.TargetsOf(logical.GetAnnotations())) != 1 {
		return ""
	}
	if phase, _ := views[0].status["phase"].(string); phase != "" && phase != "Pending" || conditionIs(views[0].status, "PodScheduled", "True") {
		return views[0].target
	}
	return ""
}
