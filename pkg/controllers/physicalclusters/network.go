package physicalclusters

import (
	"cmp"
	"net/netip"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// privateRanges are the addresses that ranges of pods count in if nobody but nodes says them: RFC 1918, 6598
// and 4193.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

// publishNetwork says in the status which addresses pods have on the other physical clusters of its network.
func (c *Controller) publishNetwork(pc *fleetv1alpha1.PhysicalCluster) {
	pc.Status.Network = networkOf(pc, c.PhysicalClusters.List())
}

// networkChanged enqueues those whose status says something of a physical cluster.
func (c *Controller) networkChanged(old, new *fleetv1alpha1.PhysicalCluster) {
	if !saysElse(old, new) {
		return
	}
	for _, pc := range c.PhysicalClusters.List() {
		if pc.Spec.Pods.Network != "" || pc.Status.Network != nil {
			c.queue.Enqueue(keyOf(pc.Name))
		}
	}
}

// saysElse says that a physical cluster is in another network, or says other ranges in it.
func saysElse(old, new *fleetv1alpha1.PhysicalCluster) bool {
	in := func(pc *fleetv1alpha1.PhysicalCluster) bool { return pc != nil && pc.Spec.Pods.Network != "" }
	if !in(old) || !in(new) {
		return in(old) || in(new)
	}
	return old.Spec.Pods.Network != new.Spec.Pods.Network || namesRanges(old) != namesRanges(new) ||
		!apiequality.Semantic.DeepEqual(old.PodNetwork(), new.PodNetwork())
}

// namesRanges says that an admin named the ranges of pods.
func namesRanges(pc *fleetv1alpha1.PhysicalCluster) bool {
	return len(pc.Spec.Tenancy.Network.PodCIDRs) > 0
}

// networkOf is what one physical cluster has to know of the others of its network; nil if it is in none.
//
//	the ranges of another one                   then
//	an admin named them                         count
//	its nodes say them, of private use          count
//	its nodes say others                        do not: it would have the world count as pods
//	are more, with those before by name, than   do not: each is in each policy
//	MaxPodCIDRs
//	are not known                               it is unknown, as with each that does not count
func networkOf(pc *fleetv1alpha1.PhysicalCluster, all []*fleetv1alpha1.PhysicalCluster) *fleetv1alpha1.NetworkStatus {
	if pc.Spec.Pods.Network == "" {
		return nil
	}
	others := slices.SortedFunc(slices.Values(all), func(a, b *fleetv1alpha1.PhysicalCluster) int { return cmp.Compare(a.Name, b.Name) })
	status := &fleetv1alpha1.NetworkStatus{}
	for _, other := range others {
		if other.Name == pc.Name || other.Spec.Pods.Network != pc.Spec.Pods.Network {
			continue
		}
		said := other.PodNetwork()
		pods, nodes := counting(said.PodCIDRs, namesRanges(other)), counting(said.NodeCIDRs, namesRanges(other))
		if overlap(pc.PodNetwork().PodCIDRs, said.PodCIDRs) {
			status.Overlapping = append(status.Overlapping, other.Name)
		}
		room := fleetv1alpha1.MaxPodCIDRs - max(len(status.PodCIDRs)+len(pods), len(status.NodeCIDRs)+len(nodes))
		if len(pods) == 0 || len(pods) < len(said.PodCIDRs) || room < 0 {
			status.Unknown = append(status.Unknown, other.Name)
		}
		if room >= 0 {
			status.PodCIDRs, status.NodeCIDRs = union(status.PodCIDRs, pods), union(status.NodeCIDRs, nodes)
		}
	}
	return status
}

// counting are those of some ranges that count.
func counting(texts []string, named bool) (count []string) {
	for _, text := range texts {
		r, err := netip.ParsePrefix(text)
		if err != nil || r != r.Masked() || r.Bits() == 0 {
			continue
		}
		if named || slices.ContainsFunc(privateRanges, func(p netip.Prefix) bool { return p.Bits() <= r.Bits() && p.Contains(r.Addr()) }) {
			count = append(count, text)
		}
	}
	return count
}

// overlap says that some address is in ranges of both; what is no range has none.
func overlap(a, b []string) bool {
	others := fleetv1alpha1.Prefixes(b)
	return slices.ContainsFunc(fleetv1alpha1.Prefixes(a), func(r netip.Prefix) bool { return slices.ContainsFunc(others, r.Overlaps) })
}

func union(a, b []string) []string {
	for _, text := range b {
		if !slices.Contains(a, text) {
			a = append(a, text)
		}
	}
	return a
}
