package syncer

import (
	"net/netip"
	"slices"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// JoinRanges are ranges of addresses with the same addresses and as few as can be, sorted:
// those of nodes that are neighbours become one. What is no range is left out.
func JoinRanges(texts []string) []string {
	ranges := fleetv1alpha1.Prefixes(texts)
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var joined []netip.Prefix
	for _, r := range ranges {
		if n := len(joined); n > 0 && joined[n-1].Overlaps(r) {
			continue // it begins no earlier and is no larger
		}
		joined = append(joined, r)
		for n := len(joined); n > 1; n = len(joined) {
			both, ok := joinHalves(joined[n-2], joined[n-1])
			if !ok {
				break
			}
			joined = append(joined[:n-2], both)
		}
	}
	out := make([]string, 0, len(joined))
	for _, r := range joined {
		out = append(out, r.String())
	}
	return out
}

// NodeRanges are the addresses that nodes may send from themselves in the ranges that they give
// to pods: networks take the first one for a tunnel and the second for a bridge.
func NodeRanges(texts []string) []string {
	var first []string
	for _, r := range fleetv1alpha1.Prefixes(texts) {
		first = append(first, netip.PrefixFrom(r.Addr(), max(r.Bits(), r.Addr().BitLen()-1)).String())
	}
	return JoinRanges(first)
}

// joinHalves is the range that consists of two halves.
func joinHalves(a, b netip.Prefix) (netip.Prefix, bool) {
	if a.Bits() != b.Bits() || a.Bits() == 0 || a == b || a.Addr().BitLen() != b.Addr().BitLen() {
		return netip.Prefix{}, false
	}
	both := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
	return both, both == netip.PrefixFrom(b.Addr(), b.Bits()-1).Masked()
}
