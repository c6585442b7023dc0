package physicalclusters

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// heartbeat is the last sign of life of a syncer.
type heartbeat struct {
	// ever is false if there was none.
	ever bool
	// seen is when this process noticed it.
	seen time.Time
}

// health are the conditions that follow from the heartbeat, on top of what the
// syncer reports, and how long they hold; zero: until something changes.
//
//	heartbeat  reported              then
//	none       nothing               Ready Unknown, NoHeartbeat
//	none       anything              as reported: the Lease follows
//	fresh      anything              as reported, to be asked again
//	silent     False by the server   as reported: the server cannot connect and says why
//	silent     anything else         Ready and Syncing Unknown, HeartbeatLost
//
// What was given up is not synced, whoever lives.
func health(pc *fleetv1alpha1.PhysicalCluster, h heartbeat, now time.Time) (conditions []metav1.Condition, holds time.Duration) {
	conditions = append(conditions, pc.Status.Conditions...)
	if pc.Spec.Forget {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: fleetv1alpha1.ConditionSyncing, Status: metav1.ConditionFalse, Reason: reasonForgotten,
			Message:            "the physical cluster was given up (spec.forget is set): its syncer does nothing any more",
			ObservedGeneration: pc.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	ready := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady)
	last := h.seen
	if !h.ever {
		if ready == nil {
			unknown(&conditions, pc, fleetv1alpha1.ConditionReady, fleetv1alpha1.ReasonNoHeartbeat, "no syncer has reported yet", now)
			return conditions, 0
		}
		last = ready.LastTransitionTime.Time
	}
	if left := last.Add(placement.Silence).Sub(now); left > 0 {
		return conditions, left
	}
	if !h.ever && ready.Status == metav1.ConditionUnknown || pushFailed(pc, ready) {
		return conditions, 0
	}
	message := fmt.Sprintf("no heartbeat for %s; what runs there is left alone, unless a policy says otherwise", placement.Silence)
	unknown(&conditions, pc, fleetv1alpha1.ConditionReady, fleetv1alpha1.ReasonHeartbeatLost, message, now)
	if !pc.Spec.Forget {
		unknown(&conditions, pc, fleetv1alpha1.ConditionSyncing, fleetv1alpha1.ReasonHeartbeatLost, message, now)
	}
	return conditions, 0
}

// pushFailed reports whether the server itself says why it cannot work with the
// physical cluster; that is better than silence.
func pushFailed(pc *fleetv1alpha1.PhysicalCluster, ready *metav1.Condition) bool {
	if pc.Spec.Connection.Type != fleetv1alpha1.ConnectionPush || ready == nil || ready.Status != metav1.ConditionFalse {
		return false
	}
	switch ready.Reason {
	case fleetv1alpha1.ReasonInvalidKubeconfig, fleetv1alpha1.ReasonUnreachable, fleetv1alpha1.ReasonForbidden,
		fleetv1alpha1.ReasonOtherCluster, fleetv1alpha1.ReasonSameCluster, fleetv1alpha1.ReasonEmptied:
		return true
	}
	return false
}

func unknown(conditions *[]metav1.Condition, pc *fleetv1alpha1.PhysicalCluster, kind, reason, message string, now time.Time) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message,
		ObservedGeneration: pc.Generation, LastTransitionTime: metav1.NewTime(now),
	})
}
