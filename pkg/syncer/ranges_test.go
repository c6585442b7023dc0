package syncer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRangesOfNodesAreJoined(t *testing.T) {
	var nodes []string
	for i := range 256 {
		nodes = append(nodes, fmt.Sprintf("10.244.%d.0/24", i))
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for name, c := range map[string]struct{ in, want []string }{
		"none":                 {nil, []string{}},
		"all of a network":     {nodes, []string{"10.244.0.0/16"}},
		"no neighbours":        {[]string{"10.244.1.0/24", "10.244.2.0/24"}, []string{"10.244.1.0/24", "10.244.2.0/24"}},
		"one within another":   {[]string{"10.244.3.0/24", "10.244.0.0/16"}, []string{"10.244.0.0/16"}},
		"both families":        {[]string{"fd00::/64", "10.244.0.0/24", "fd00:0:0:1::/64"}, []string{"10.244.0.0/24", "fd00::/63"}},
		"the same twice":       {[]string{"10.244.0.0/24", "10.244.0.0/24"}, []string{"10.244.0.0/24"}},
		"what is no range too": {[]string{"x", "10.244.0.7/24", ""}, []string{"10.244.0.0/24"}},
	} {
		if diff := cmp.Diff(c.want, JoinRanges(c.in)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestNodesSendFromTheFirstAddressesOfTheirRanges(t *testing.T) {
	want := []string{"10.9.0.7/32", "10.244.0.0/31", "10.244.1.0/31", "fd00::/127"}
	if diff := cmp.Diff(want, NodeRanges([]string{"10.244.1.0/24", "fd00::/64", "10.244.0.0/24", "10.9.0.7/32", "x"})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestJoinedRangesHaveTheSameAddresses(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		var in []string
		for range r.IntN(12) {
			in = append(in, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(256))}), 24+r.IntN(9)).String())
		}
		out := JoinRanges(in)
		has := func(ranges []string, a netip.Addr) bool {
			for _, text := range ranges {
				if netip.MustParsePrefix(text).Contains(a) {
					return true
				}
			}
			return false
		}
		for last := range 256 {
			if a := netip.AddrFrom4([4]byte{10, 0, 0, byte(last)}); has(in, a) != has(out, a) {
				t.Fatalf("seed %d: %v of %v and %v", seed, a, in, out)
			}
		}
		if len(out) > len(in) {
			t.Fatalf("seed %d: %v became %v", seed, in, out)
		}
	}
}
