package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// disruptionTimeout is how long an evicted pod may take to be seen going; that of
// the controller of Kubernetes.
const disruptionTimeout = 2 * time.Minute

// keepDisrupted keeps in the status of a PodDisruptionBudget which pods were evicted
// in the logical cluster: its API server notes that, and nobody below knows.
func keepDisrupted(status, current map[string]any) {
	for name, at := range field(current, "disruptedPods") {
		if _, ok := field(status, "disruptedPods")[name]; !ok {
			setNested(status, at, "disruptedPods", name)
		}
	}
}

// Forget takes what is over off the status of an object: the evictions that a
// PodDisruptionBudget notes. left is when the next one will be; zero if there is none.
func Forget(kind workload.Kind, obj *unstructured.Unstructured, now time.Time) (changed bool, left time.Duration) {
	if forget := semanticsOf(kind).forget; forget != nil {
		return forget(obj, now)
	}
	return false, 0
}

func forgetDisrupted(obj *unstructured.Unstructured, now time.Time) (changed bool, left time.Duration) {
	pods := field(field(obj.Object, "status"), "disruptedPods")
	for name, value := range pods {
		text, _ := value.(string)
		at, err := time.Parse(time.RFC3339, text)
		switch rest := at.Add(disruptionTimeout).Sub(now); {
		case err != nil || rest <= 0:
			delete(pods, name)
			changed = true
		case left == 0 || rest < left:
			left = rest
		}
	}
	return changed, left
}
