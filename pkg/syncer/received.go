package syncer

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ReasonNoFormerContent is the reason of the Copy of an object whose former content, which
// the target is to have, cannot be read. What is below stays as it is.
const ReasonNoFormerContent = "NoFormerContent"

// Received is a logical object as a target is to have it: with its former content as long as
// a change is for others. From here on that is what its user wrote. withheld says why
// nothing of it may go down, if that content cannot be read: the present one would be
// ahead of its time.
func Received(kind workload.Kind, logical *unstructured.Unstructured, target string) (_ *unstructured.Unstructured, withheld string) {
	received, err := stamp.Received(kind, logical, target)
	if err != nil {
		return logical, err.Error()
	}
	return received, ""
}

// revision is which change of the object the target has, once it has all of it.
func (p planner) revision() string {
	if p.entry().Former {
		return ""
	}
	return stamp.Revision(p.Logical)
}

// outdated is the status of a copy that has not got a change which is under way: what runs
// there is not what the object says now.
func outdated(status map[string]any) map[string]any {
	if status == nil {
		return nil
	}
	out := maps.Clone(status)
	for _, name := range []string{"updatedReplicas", "updatedNumberScheduled"} {
		if _, ok := out[name]; ok {
			out[name] = int64(0)
		}
	}
	return out
}
