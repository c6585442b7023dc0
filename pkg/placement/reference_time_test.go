package placement

import (
	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// dumbTolerates: every level that has to does, and of all tolerations that do, none is
// over; for what is not there yet, none ever is.
func dumbTolerates(s Snapshot, u Unit, t corev1.Taint, there bool) bool {
	yes, any := map[placementv1alpha1.PolicyLevel]bool{}, map[placementv1alpha1.PolicyLevel]bool{"Global": true}
	for _, p := range dumbHeard(s, u) {
		for _, x := range p.Rules.Tolerations {
			if x.Key != "fleet.atoll.dev/unreachable" {
				any[p.Level] = true
			}
			if x.Key != "" && x.Key != t.Key || x.Effect != "" && x.Effect != t.Effect || x.Operator != corev1.TolerationOpExists && x.Value != t.Value {
				continue
			}
			yes[p.Level] = true
			if x.TolerationSeconds == nil {
				continue
			}
			if t.Effect != corev1.TaintEffectPreferNoSchedule && !there {
				return false
			}
			if t.Effect == corev1.TaintEffectNoExecute && t.TimeAdded != nil && s.Now.Unix() >= t.TimeAdded.Unix()+*x.TolerationSeconds {
				return false
			}
		}
	}
	for level := range any {
		if !yes[level] {
			return false
		}
	}
	return true
}

// dumbAbandoned: it is silent, others are not, and a policy that names that waits no more.
func dumbAbandoned(s Snapshot, u Unit, c PhysicalCluster) bool {
	if s.CutOff {
		return false
	}
	for _, condition := range c.Status.Conditions {
		lost := condition.Status == "Unknown" && condition.Reason == "HeartbeatLost" || condition.Status == "False" && condition.Reason == "Unreachable"
		if condition.Type != "Ready" || !lost {
			continue
		}
		since := max(condition.LastTransitionTime.Unix(), s.Watched.Unix())
		for _, p := range dumbHeard(s, u) {
			for _, x := range p.Rules.Tolerations {
				if x.Key == "fleet.atoll.dev/unreachable" && x.TolerationSeconds != nil && s.Now.Unix() >= since+*x.TolerationSeconds {
					return true
				}
			}
		}
	}
	return false
}
