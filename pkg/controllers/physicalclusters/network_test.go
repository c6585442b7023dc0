package physicalclusters

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func member(name, network string, change ...func(*fleetv1alpha1.PhysicalCluster)) *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pc.Spec.Pods.Network = network
	for _, f := range change {
		f(pc)
	}
	return pc
}

func says(pods, nodes []string) func(*fleetv1alpha1.PhysicalCluster) {
	return func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.PodCIDRs, pc.Status.NodeCIDRs = pods, nodes }
}

func named(pods ...string) func(*fleetv1alpha1.PhysicalCluster) {
	return func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Tenancy.Network.PodCIDRs = pods }
}

func TestWhatAPhysicalClusterKnowsOfTheOthersOfItsNetwork(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range fleetv1alpha1.MaxPodCIDRs - 1 {
		many = append(many, fmt.Sprintf("10.3.%d.0/24", i))
	}
	west := says([]string{"10.2.0.0/16"}, []string{"10.2.0.0/31"})
	for name, c := range map[string]struct {
		network string
		others  []*fleetv1alpha1.PhysicalCluster
		want    *fleetv1alpha1.NetworkStatus
	}{
		"in no network":               {others: []*fleetv1alpha1.PhysicalCluster{member("west", "", west)}},
		"alone in it":                 {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "m", west)}, want: &fleetv1alpha1.NetworkStatus{}},
		"what nodes say":              {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", west)}, want: &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"10.2.0.0/16"}, NodeCIDRs: []string{"10.2.0.0/31"}}},
		"what an admin says":          {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", west, named("198.51.100.0/24"))}, want: &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"198.51.100.0/24"}}},
		"nothing is known":            {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n")}, want: &fleetv1alpha1.NetworkStatus{Unknown: []string{"west"}}},
		"all addresses":               {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", says([]string{"0.0.0.0/0", "10.0.0.0/7", "::/0", "fc00::/6"}, nil))}, want: &fleetv1alpha1.NetworkStatus{Unknown: []string{"west"}, Overlapping: []string{"west"}}},
		"all addresses, by an admin":  {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", named("0.0.0.0/0"))}, want: &fleetv1alpha1.NetworkStatus{Unknown: []string{"west"}, Overlapping: []string{"west"}}},
		"addresses of one's own":      {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", says([]string{"10.1.7.0/24"}, nil)), member("zoo", "n", west)}, want: &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"10.1.7.0/24", "10.2.0.0/16"}, NodeCIDRs: []string{"10.2.0.0/31"}, Overlapping: []string{"west"}}},
		"some that count":             {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", says([]string{"10.2.0.0/16", "203.0.113.0/24", "none", "fd00:1::/48"}, nil))}, want: &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"10.2.0.0/16", "fd00:1::/48"}, Unknown: []string{"west"}}},
		"two that say the same":       {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", west), member("north", "n", west)}, want: &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"10.2.0.0/16"}, NodeCIDRs: []string{"10.2.0.0/31"}}},
		"more than there is room for": {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("west", "n", named("172.16.1.0/24", "172.16.3.0/24")), member("north", "n", says(many, nil)), member("zoo", "n", named("172.17.0.0/16"))}, want: &fleetv1alpha1.NetworkStatus{PodCIDRs: append(many[:len(many):len(many)], "172.17.0.0/16"), Unknown: []string{"west"}}},
		"one more than that by nodes": {network: "n", others: []*fleetv1alpha1.PhysicalCluster{member("north", "n", says(append(many[:len(many):len(many)], "a", "b"), nil))}, want: &fleetv1alpha1.NetworkStatus{Unknown: []string{"north"}}},
	} {
		pc := member("east", c.network, says([]string{"10.1.0.0/16"}, nil))
		got := networkOf(pc, append(c.others, pc))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestOthersHearOfAnotherNetworkOrOtherRangesOnly(t *testing.T) {
	t.Parallel()
	west := says([]string{"10.2.0.0/16"}, nil)
	for name, c := range map[string]struct {
		old, new *fleetv1alpha1.PhysicalCluster
		want     bool
	}{
		"it came":                {new: member("west", "n", west), want: true},
		"it went":                {old: member("west", "n"), want: true},
		"in no network":          {old: member("west", ""), new: member("west", "", west)},
		"it joined":              {old: member("west", "", west), new: member("west", "n", west), want: true},
		"other ranges":           {old: member("west", "n"), new: member("west", "n", west), want: true},
		"something else":         {old: member("west", "n", west), new: member("west", "n", west, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Unschedulable = true })},
		"an admin says the same": {old: member("west", "n", west), new: member("west", "n", west, named("10.2.0.0/16")), want: true},
	} {
		if got := saysElse(c.old, c.new); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
