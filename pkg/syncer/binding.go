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

const (
	// countingTimeout is how old a pod is at the most for which a status that counts it
	// waits, and countingInterval when that is looked at again.
	countingTimeout  = bindingTimeout + time.Second
	countingInterval = 100 * time.Millisecond
)

// countingDelay is how long to wait before the status of what makes pods is mirrored: in
// one cluster the pods are there before a status counts them, and whoever reads the status
// looks for them next. What keeps a pod from being mirrored does not hold it back for long.
//
//	the pods that it owns below                 delay
//	all are mirrored, or on their way out       none
//	one is not, older than countingTimeout, or  none
//	of a clock that is ahead
//	one is not, and new                         countingInterval, again and again
func (s Observation) countingDelay() time.Duration {
	for _, pod := range s.Unmirrored {
		if age := s.Now.Sub(pod.GetCreationTimestamp().Time); pod.GetDeletionTimestamp() == nil && age > -countingTimeout && age < countingTimeout {
			return countingInterval
		}
	}
	return 0
}

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
