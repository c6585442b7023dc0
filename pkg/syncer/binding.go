package syncer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// bindingTimeout is how long a new pod may wait for its node before it is mirrored
// without: with it, one write does.
const bindingTimeout = 2 * time.Second

// BindingDelay is how long to wait for the node of a new pod before it is mirrored.
//
//	the object below                            delay
//	no pod, or a pod with a node                none
//	a pod of which the scheduler has said why   none
//	it has no node
//	another pod                                 until it is bindingTimeout old
func BindingDelay(kind workload.Kind, obj *unstructured.Unstructured, now time.Time) time.Duration {
	if !kind.IsPod() {
		return 0
	}
	if node, _ := field(obj.Object, "spec")["nodeName"].(string); node != "" {
		return 0
	}
	for _, c := range list(field(obj.Object, "status"), "conditions") {
		if c["type"] == string(corev1.PodScheduled) {
			return 0
		}
	}
	return max(0, bindingTimeout-now.Sub(obj.GetCreationTimestamp().Time))
}
