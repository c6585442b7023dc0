package physicalclusters

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// goOn carries on since when a drain goes on, and how many have left: it is stored, so that
// whoever looks next, here or on another server, goes on from there. Nothing comes while it is
// requested, so that fewer than before are those that left, or ended.
func goOn(before, status *fleetv1alpha1.DrainStatus, now time.Time) {
	if before == nil || before.StartedAt == nil {
		at := metav1.NewTime(now)
		status.StartedAt = &at
		return
	}
	status.StartedAt = before.StartedAt
	status.Ended = before.Ended + max(0, before.Namespaces-status.Namespaces)
}

// leavable counts those of which it can be said when they will have left: not what cannot
// move, or has not become available for long, and after the deadline only what moves.
func leavable(s *fleetv1alpha1.DrainStatus, drains bool) int32 {
	if !drains {
		return s.Moving - s.Stuck
	}
	return s.Namespaces - s.Blocked - s.Stuck
}

// estimate is how many seconds a drain takes as yet.
//
//	can leave   have left   since       then
//	none        any         any         0: there is nothing to wait for, or nobody knows for how long
//	some        none        any         0: nothing is known
//	some        some        a time      as long for each as it took since, in steps: each is a write
//
// What stands still makes the time for each longer, and so the estimate.
func estimate(left, ended int32, since time.Duration) int32 {
	if left <= 0 || ended <= 0 || since <= 0 {
		return 0
	}
	seconds := int64(since.Seconds()) * int64(left) / int64(ended)
	step := int64(10)
	switch {
	case seconds > 3600:
		step = 600
	case seconds > 60:
		step = 60
	}
	return int32(min((seconds+step)/step*step, 1<<31-1))
}
