package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// countingTimeout is how old a pod is at the most for which a status that counts it
	// waits, and how long the report of a copy waits for what it counts.
	countingTimeout = bindingTimeout + time.Second
	// countingInterval is when that is looked at again.
	countingInterval = 100 * time.Millisecond
)

// Made is an object that controllers of the target made for another one there.
type Made struct {
	Kind     workload.Kind
	Physical *unstructured.Unstructured
	// Mirror is the object that mirrors it; nil if there is none.
	Mirror *unstructured.Unstructured
}

// unmirrored says that it is about to be mirrored: it is new, and stays. What keeps an
// object from being mirrored holds no status back for long.
func (m Made) unmirrored(now time.Time) bool {
	age := now.Sub(m.Physical.GetCreationTimestamp().Time)
	return m.Mirror == nil && m.Physical.GetDeletionTimestamp() == nil && age > -countingTimeout && age < countingTimeout
}

// outdated says that its mirror counts other pods than it does itself.
func (m Made) outdated() bool {
	return m.Mirror != nil && !m.Kind.IsPod() && m.Physical.GetDeletionTimestamp() == nil && m.Mirror.GetDeletionTimestamp() == nil &&
		!equalCounts(field(m.Physical.Object, "status"), field(m.Mirror.Object, "status"))
}

// equalCounts compares the numbers of two statuses, but for those of generations.
func equalCounts(a, b map[string]any) bool {
	for _, pair := range [2][2]map[string]any{{a, b}, {b, a}} {
		for name := range pair[0] {
			n, counts := integer(pair[0], name)
			if m, _ := integer(pair[1], name); counts && name != "observedGeneration" && m != n {
				return false
			}
		}
	}
	return true
}

// countingDelay is how long to wait before the status of what makes pods is mirrored: in
// one cluster the pods are there before a status counts them, and whoever reads the status
// looks for them next.
//
//	the pods that it owns below                 delay
//	all are mirrored, or on their way out       none
//	one is not, older than countingTimeout, or  none
//	of a clock that is ahead
//	one is not, and new                         countingInterval, again and again
func (s Observation) countingDelay() time.Duration {
	for _, m := range s.Made {
		if m.Kind.IsPod() && m.unmirrored(s.Now) {
			return countingInterval
		}
	}
	return 0
}

// countingDelay is the same for the report of a copy, whose status counts the pods that it
// owns, or what the ReplicaSets that it owns count.
//
//	the Copy would become                  what it owns below      delay
//	not Synced, or with the same status    any                     none: others wait for that
//	Synced with another status             all is mirrored as it   none
//	                                       is below, or goes
//	                                       else                    as long as it has waited already, at
//	                                                               least countingInterval, and until it
//	                                                               waited for countingTimeout
func (p planner) countingDelay(c *placementv1alpha1.Copy) time.Duration {
	if p.Made == nil || c.Status.State != placementv1alpha1.CopySynced || p.Physical == nil || equalCounts(rawOf(p.Copy.Status.Observed), rawOf(c.Status.Observed)) {
		return 0
	}
	waited := time.Duration(0)
	if !p.Counting.IsZero() {
		waited = p.Now.Sub(p.Counting)
	}
	left := countingTimeout - waited
	if left <= 0 {
		return 0
	}
	for _, m := range p.Made(p.Physical.GetUID()) {
		if m.unmirrored(p.Now) || m.outdated() {
			return min(max(waited, countingInterval), left)
		}
	}
	return 0
}
