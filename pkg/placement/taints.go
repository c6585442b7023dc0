package placement

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Silence is how long after its last heartbeat a physical cluster counts as silent. A
// server that starts has heard of every one that lives by then.
const Silence = 40 * time.Second

// SilentSince says since when a physical cluster does not answer; zero: it does, or what
// is wrong says nothing about what runs there (refused credentials, another cluster).
func SilentSince(c *fleetv1alpha1.PhysicalCluster) time.Time {
	ready := meta.FindStatusCondition(c.Status.Conditions, fleetv1alpha1.ConditionReady)
	switch {
	case ready == nil:
	case ready.Status == metav1.ConditionUnknown && ready.Reason == fleetv1alpha1.ReasonHeartbeatLost,
		ready.Status == metav1.ConditionFalse && ready.Reason == fleetv1alpha1.ReasonUnreachable:
		return ready.LastTransitionTime.Time
	}
	return time.Time{}
}

// CutOff reports whether more than half of the physical clusters do not answer: then it
// is likelier that the server is cut off than that they are lost. What an admin gave up says
// nothing about that.
func CutOff(clusters []*fleetv1alpha1.PhysicalCluster) bool {
	silent, all := 0, 0
	for _, c := range clusters {
		if c.Spec.Forget {
			continue
		}
		all++
		if !SilentSince(c).IsZero() {
			silent++
		}
	}
	return silent > 1 && silent > all/2
}

// stay is how long a unit may stay; for ever if until is zero.
type stay struct {
	until time.Time
	// reason and message say what ends then.
	reason, message string
}

// sooner is the one that ends first.
func (s stay) sooner(other stay) stay {
	switch {
	case s == stay{}, s.until.IsZero() && !other.until.IsZero(), !other.until.IsZero() && other.until.Before(s.until):
		return other
	}
	return s
}

// evicted says why a unit may not stay, or until when it may.
func (r *rules) evicted(c PhysicalCluster) (*Rejection, stay) {
	var ends stay
	for _, taint := range c.Spec.Taints {
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		seconds, ok := r.tolerated(taint)
		if !ok {
			return untolerated(taint), stay{}
		}
		if seconds != nil && taint.TimeAdded != nil {
			ends = ends.sooner(stay{taint.TimeAdded.Add(duration(*seconds)), ReasonUntoleratedTaint,
				fmt.Sprintf("its taint %s is tolerated for %d s", taint.ToString(), *seconds)})
		}
	}
	ends = ends.sooner(r.abandoned(c))
	if !ends.until.IsZero() && !r.now.IsZero() && !r.now.Before(ends.until) {
		return reject(ends.reason, "%s, which are over", ends.message), stay{}
	}
	return nil, ends
}

// abandoned is how long a unit stays on a physical cluster that does not answer: for
// ever, unless a policy says how long.
func (r *rules) abandoned(c PhysicalCluster) stay {
	since := SilentSince(c.PhysicalCluster)
	if since.IsZero() {
		return stay{}
	}
	if since.Before(r.watched) {
		since = r.watched
	}
	unreachable := corev1.Taint{Key: fleetv1alpha1.TaintUnreachable, Effect: corev1.TaintEffectNoExecute}
	var least *int64
	for _, tolerations := range r.tolerations {
		for _, t := range tolerations {
			if t.Key == unreachable.Key && toleratesTaint(t, unreachable) {
				least = shorter(least, t.TolerationSeconds)
			}
		}
	}
	switch {
	case least == nil:
		return stay{}
	case r.cutOff:
		return stay{message: "it does not answer, but neither do most others: that counts for nothing, as the server may be cut off"}
	}
	return stay{since.Add(duration(*least)), ReasonUnreachable, fmt.Sprintf("it does not answer, and the policies wait for it for %d s", *least)}
}

// tainted rejects a physical cluster with a taint that is not tolerated for ever: what
// comes to it would leave it again.
func (r *rules) tainted(c PhysicalCluster) *Rejection {
	for _, taint := range c.Spec.Taints {
		if taint.Effect != corev1.TaintEffectNoSchedule && taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		seconds, ok := r.tolerated(taint)
		if !ok {
			return untolerated(taint)
		}
		if seconds != nil {
			return reject(ReasonUntoleratedTaint, "its taint %s is tolerated for %d s only", taint.ToString(), *seconds)
		}
	}
	return nil
}

func untolerated(taint corev1.Taint) *Rejection {
	return reject(ReasonUntoleratedTaint, "no policy tolerates its taint %s", taint.ToString())
}

// tolerated: a policy of "root" must tolerate the taint, and at each other level that
// has tolerations one of these must do so too. The shortest time of all that do is how
// long; nil is for ever.
func (r *rules) tolerated(taint corev1.Taint) (seconds *int64, ok bool) {
	for at, tolerations := range r.tolerations {
		matching := slices.DeleteFunc(slices.Clone(tolerations), func(t corev1.Toleration) bool { return !toleratesTaint(t, taint) })
		required := at == rank(placementv1alpha1.PolicyGlobal) || slices.ContainsFunc(tolerations, isForAdminTaints)
		if required && len(matching) == 0 {
			return nil, false
		}
		for _, t := range matching {
			seconds = shorter(seconds, t.TolerationSeconds)
		}
	}
	return seconds, true
}

// isForAdminTaints tells a toleration from one that only says how long silence is borne.
func isForAdminTaints(t corev1.Toleration) bool { return t.Key != fleetv1alpha1.TaintUnreachable }

func shorter(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func duration(seconds int64) time.Duration { return time.Duration(max(0, seconds)) * time.Second }

// toleratesTaint as Kubernetes has it: an empty effect means all effects, an
// empty key with Exists all keys, an empty operator Equal.
func toleratesTaint(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Key != "" && t.Value == taint.Value
	}
	return false
}
