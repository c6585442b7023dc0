package syncer

import (
	"strings"
	"testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestTheConditionOfIsolationIsTrueOnlyIfEveryNamespaceHasItsPolicies(t *testing.T) {
	ranges := fleetv1alpha1.Network{PodCIDRs: []string{"10.244.0.0/16"}}
	none := ranges
	none.Isolation = fleetv1alpha1.NetworkIsolationNone
	known, unknown := &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"10.2.0.0/16"}}, &fleetv1alpha1.NetworkStatus{Unknown: []string{"west"}}
	for name, c := range map[string]struct {
		network   fleetv1alpha1.Network
		flat      string
		elsewhere *fleetv1alpha1.NetworkStatus
		unserved  bool
		lacking   Lacking
		failure   *Failure
		want      string
		says      []string
	}{
		"it does not answer":         {network: ranges, failure: &Failure{Reason: "Unreachable"}, want: "Unknown Unreachable"},
		"the admin wants none":       {network: none, want: "False NotWanted"},
		"it has no such kind":        {network: ranges, unserved: true, want: "False NotServed"},
		"no ranges are known":        {want: "False PodNetworkUnknown"},
		"one has too many":           {network: ranges, lacking: Lacking{Open: 1}, want: "False Incomplete"},
		"all have their policies":    {network: ranges, want: "True Made", says: []string{"none of 10.244.0.0/16"}},
		"nobody said who else":       {network: ranges, flat: "backbone", want: "Unknown NetworkUnknown"},
		"others do not say":          {network: ranges, flat: "backbone", elsewhere: unknown, want: "False PodNetworkUnknown", says: []string{"from west;"}},
		"others have the same":       {network: ranges, flat: "backbone", elsewhere: &fleetv1alpha1.NetworkStatus{Overlapping: []string{"west"}}, want: "False PodRangesOverlap", says: []string{"tell: west;"}},
		"ranges are known elsewhere": {network: ranges, flat: "backbone", elsewhere: known, want: "True Made", says: []string{"none of 10.244.0.0/16, 10.2.0.0/16", "network backbone are distinguished from others"}},
		"only those":                 {flat: "backbone", elsewhere: known, want: "False PodNetworkUnknown"},
		"left the network":           {network: ranges, elsewhere: known, want: "True Made", says: []string{"none of 10.244.0.0/16, or"}},
		"too many to be admitted":    {network: ranges, flat: "backbone", elsewhere: known, lacking: Lacking{Closed: 3}, want: "True Made", says: []string{"too many: 3"}},
	} {
		pc := &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Tenancy: fleetv1alpha1.Tenancy{Network: c.network}}}
		pc.Spec.Pods.Network, pc.Status.Network = c.flat, c.elsewhere
		got := IsolationCondition(pc, !c.unserved, c.lacking, c.failure)
		if s := string(got.Status) + " " + got.Reason; s != c.want || got.Message == "" {
			t.Errorf("%s: %s, want %s (%s)", name, s, c.want, got.Message)
		}
		for _, part := range c.says {
			if !strings.Contains(got.Message, part) {
				t.Errorf("%s: the message lacks %q: %s", name, part, got.Message)
			}
		}
	}
}
