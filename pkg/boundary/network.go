package boundary

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

var networkPolicies = schema.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"}

// everywhere are all addresses.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// Neighbors are the peers of a NetworkPolicy that may reach pods which nobody restricts: pods
// of the logical cluster, those of no logical cluster (an ingress controller, monitoring), and
// who is no pod, which nodes with an address among the pods are not either.
func (p Passage) Neighbors() []any {
	peers := p.inside()
	for _, all := range everywhere {
		block := map[string]any{"cidr": all.String()}
		if inside := within(all, p.podRanges()); len(inside) > 0 {
			block["except"] = texts(inside)
		}
		peers = append(peers, map[string]any{"ipBlock": block})
	}
	return peers
}

// inside are those of them with addresses that pods may have.
func (p Passage) inside() []any {
	selector := func(s map[string]any) any { return map[string]any{"namespaceSelector": s} }
	peers := []any{
		selector(map[string]any{"matchLabels": map[string]any{TenantLabel: p.Tenant}}),
		selector(map[string]any{"matchExpressions": []any{map[string]any{"key": TenantLabel, "operator": string(metav1.LabelSelectorOpDoesNotExist)}}}),
	}
	for _, cidr := range p.Permits.Network.NodeCIDRs {
		peers = append(peers, map[string]any{"ipBlock": map[string]any{"cidr": cidr}})
	}
	return peers
}

// podRanges are the ranges that pods have their addresses from.
func (p Passage) podRanges() []netip.Prefix {
	return fleetv1alpha1.Prefixes(p.Permits.Network.PodCIDRs)
}

// keepApart has a NetworkPolicy permit no pods of other logical clusters, where these are to
// be kept out.
//
//	who may come                           below
//	everybody (no peers)                   Neighbors
//	pods, namespaces                       as the filter confined them
//	a block without addresses of pods      as it is
//	a block with all addresses of pods     without these; and the pods among the Neighbors
//	a block with some of them              without these, which is said
//	a block with nothing but these         nobody, which is said
func (f *filter) keepApart(obj map[string]any) {
	if f.kind != networkPolicies || !f.Permits.Network.Isolates() {
		return
	}
	spec, _ := obj["spec"].(map[string]any)
	rules := items(spec["ingress"])
	at := field.NewPath("spec", "ingress")
	kept := make([]any, 0, len(rules))
	for i, item := range rules {
		rule, ok := item.(map[string]any)
		if !ok {
			continue
		}
		peers := items(rule["from"])
		if len(peers) == 0 {
			rule["from"] = f.Neighbors()
		} else if rule["from"] = f.peers(peers, at.Index(i).Child("from")); len(items(rule["from"])) == 0 {
			continue // no peers would mean everybody
		}
		kept = append(kept, rule)
	}
	if len(rules) > 0 {
		spec["ingress"] = kept
	}
}

func (f *filter) peers(peers []any, at *field.Path) []any {
	kept := []any{}
	pods := false
	for i, item := range peers {
		peer, _ := item.(map[string]any)
		block, ok := peer["ipBlock"].(map[string]any)
		if !ok {
			kept = append(kept, item)
			continue
		}
		left, all := f.withoutPods(block, at.Index(i).Child("ipBlock"))
		if left {
			kept = append(kept, item)
		}
		pods = pods || all
	}
	if pods {
		kept = append(kept, f.inside()...)
	}
	return kept
}

// withoutPods takes the addresses of pods out of a block, and says whether any others are left,
// and whether it had all of them.
func (f *filter) withoutPods(block map[string]any, at *field.Path) (left, all bool) {
	cidr, err := netip.ParsePrefix(str(block["cidr"]))
	if err != nil {
		return false, false
	}
	cidr = cidr.Masked()
	var except []netip.Prefix
	for _, text := range items(block["except"]) {
		if e, err := netip.ParsePrefix(str(text)); err == nil {
			except = append(except, e.Masked())
		}
	}
	ranges := sameFamily(cidr, f.podRanges())
	if slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return contains(r, cidr) }) {
		f.find(at, Mapped, "has addresses of pods only, and pods of other logical clusters may have them: permits nobody; select pods by their labels")
		return false, false
	}
	inside := within(cidr, ranges)
	open := slices.DeleteFunc(slices.Clone(inside), func(r netip.Prefix) bool {
		return slices.ContainsFunc(except, func(e netip.Prefix) bool { return contains(e, r) })
	})
	if len(open) == 0 {
		return true, false
	}
	block["except"] = append(items(block["except"]), texts(open)...)
	all = len(inside) == len(ranges) && !slices.ContainsFunc(except, func(e netip.Prefix) bool { return overlaps(e, ranges) })
	if !all {
		f.find(at, Mapped, "does not permit pods by their addresses, which pods of other logical clusters may have; select pods by their labels")
	}
	return true, all
}

// contains says that all addresses of b are in a.
func contains(a, b netip.Prefix) bool {
	return a.Addr().BitLen() == b.Addr().BitLen() && a.Bits() <= b.Bits() && a.Contains(b.Addr())
}

// within are the ranges that are inside of another.
func within(all netip.Prefix, ranges []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ranges), func(r netip.Prefix) bool { return !contains(all, r) || r == all })
}

func overlaps(a netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, a.Overlaps)
}

func sameFamily(as netip.Prefix, ranges []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(ranges), func(r netip.Prefix) bool { return r.Addr().BitLen() != as.Addr().BitLen() })
}

func texts(ranges []netip.Prefix) []any {
	out := make([]any, 0, len(ranges))
	for _, r := range ranges {
		out = append(out, r.String())
	}
	return out
}
