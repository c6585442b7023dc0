package placement

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestSilenceCountsForNothingIfMostAreSilent(t *testing.T) {
	for fleet, want := range map[string]bool{
		"": false, ".": false, "s": false, "s.": false, "ss": true, "ss.": true, "ss..": false, "sss..": true, "s...": false, "ff.": false,
	} {
		var clusters []*fleetv1alpha1.PhysicalCluster
		for _, c := range strings.Split(fleet, "") {
			pc := &fleetv1alpha1.PhysicalCluster{}
			condition := metav1.Condition{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)}
			switch c {
			case "s":
				condition.Status, condition.Reason = metav1.ConditionUnknown, fleetv1alpha1.ReasonHeartbeatLost
			case "f":
				condition.Status, condition.Reason = metav1.ConditionFalse, fleetv1alpha1.ReasonForbidden
			}
			pc.Status.Conditions = []metav1.Condition{condition}
			clusters = append(clusters, pc)
		}
		if got := CutOff(clusters); got != want {
			t.Errorf("%q: %v, want %v", fleet, got, want)
		}
	}
}

// Nothing but time makes a decision other at Until, and nothing before does.
func TestADecisionStandsUntilItSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := Snapshot{Now: drawMoment(t, "now")}, Unit{LogicalCluster: "shop", Namespace: "web", Decided: []string{"a"}}
		s.PhysicalClusters = []PhysicalCluster{drawCluster(t, "a"), drawCluster(t, "b")}
		p := Policy{PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyGlobal, Name: "p"}, Rules: &placementv1alpha1.PolicyRules{}}
		seconds := rapid.Int64Range(0, 5).Draw(t, "seconds")
		p.Rules.Tolerations = append(drawTolerations(t, 0),
			corev1.Toleration{Operator: corev1.TolerationOpExists}, corev1.Toleration{Key: fleetv1alpha1.TaintUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds})
		ready := &s.PhysicalClusters[0].Status.Conditions[0]
		ready.Status, ready.Reason = metav1.ConditionUnknown, fleetv1alpha1.ReasonHeartbeatLost
		s.Policies = []Policy{p}
		v := Verify(s, u)
		if !v.Satisfied || v.Until.IsZero() {
			t.Skip("no time ends")
		}
		s.Now = v.Until.Add(-time.Second)
		if before := Verify(s, u); !before.Satisfied {
			t.Fatalf("not satisfied before %s: %+v", v.Until, before)
		}
		s.Now = v.Until
		if after := Verify(s, u); after.Satisfied {
			t.Fatalf("satisfied at %s: %+v", v.Until, after)
		}
	})
}
