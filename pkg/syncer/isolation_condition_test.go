package syncer

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestTheConditionOfIsolationIsTrueOnlyIfEveryNamespaceHasItsPolicies(t *testing.T) {
	ranges := fleetv1alpha1.Network{PodCIDRs: []string{"10.244.0.0/16"}}
	none := ranges
	none.Isolation = fleetv1alpha1.NetworkIsolationNone
	for name, c := range map[string]struct {
		network    fleetv1alpha1.Network
		unserved   bool
		incomplete int
		failure    *Failure
		want       string
	}{
		"it does not answer":      {network: ranges, failure: &Failure{Reason: "Unreachable"}, want: "Unknown Unreachable"},
		"the admin wants none":    {network: none, want: "False NotWanted"},
		"it has no such kind":     {network: ranges, unserved: true, want: "False NotServed"},
		"no ranges are known":     {want: "False PodNetworkUnknown"},
		"one has too many":        {network: ranges, incomplete: 1, want: "False Incomplete"},
		"all have their policies": {network: ranges, want: "True Made"},
	} {
		pc := &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Tenancy: fleetv1alpha1.Tenancy{Network: c.network}}}
		got := IsolationCondition(pc, !c.unserved, c.incomplete, c.failure)
		pc.Spec.Pods.Network = "backbone"
		if flat := IsolationCondition(pc, !c.unserved, c.incomplete, c.failure); (got.Status == metav1.ConditionTrue) != strings.Contains(flat.Message, "network backbone count as none") {
			t.Errorf("%s, in a flat network: %s", name, flat.Message)
		}
		if s := string(got.Status) + " " + got.Reason; s != c.want || got.Message == "" {
			t.Errorf("%s: %s, want %s (%s)", name, s, c.want, got.Message)
		}
	}
}
