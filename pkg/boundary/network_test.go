package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestBlocksOfAddressesPermitNoPodsOfOthers(t *testing.T) {
	kind, ok := workload.Builtin().ByResource(schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"})
	if !ok {
		t.Fatal("no such kind")
	}
	p := Passage{Tenant: "t"}
	p.Permits.Network.PodCIDRs = []string{"10.244.0.0/16", "10.245.0.0/16"}
	p.Permits.Network.NodeCIDRs = []string{"10.244.1.0/31"}
	block := func(cidr string, except ...any) map[string]any {
		b := map[string]any{"cidr": cidr}
		if len(except) > 0 {
			b["except"] = except
		}
		return map[string]any{"ipBlock": b}
	}
	pods := p.inside()
	const some, nobody = "does not permit pods by their addresses, which pods of other logical clusters may have; select pods by their labels",
		"has addresses of pods only, and pods of other logical clusters may have them: permits nobody; select pods by their labels"
	for name, c := range map[string]struct {
		peer map[string]any
		want []any
		why  string
	}{
		"no pods":                      {block("192.0.2.0/24"), []any{block("192.0.2.0/24")}, ""},
		"all pods":                     {block("10.0.0.0/8"), append([]any{block("10.0.0.0/8", "10.244.0.0/16", "10.245.0.0/16")}, pods...), ""},
		"all but all pods":             {block("10.0.0.0/8", "10.244.0.0/15"), []any{block("10.0.0.0/8", "10.244.0.0/15")}, ""},
		"all but some pods":            {block("10.0.0.0/8", "10.244.7.0/24"), []any{block("10.0.0.0/8", "10.244.7.0/24", "10.244.0.0/16", "10.245.0.0/16")}, some},
		"all but one range":            {block("10.0.0.0/8", "10.244.0.0/16"), []any{block("10.0.0.0/8", "10.244.0.0/16", "10.245.0.0/16")}, some},
		"some pods":                    {block("10.244.0.0/12", "10.244.0.0/16"), []any{block("10.244.0.0/12", "10.244.0.0/16", "10.245.0.0/16")}, some},
		"a range of pods":              {block("10.244.0.0/16"), []any{}, nobody},
		"a part of a range":            {block("10.244.3.0/24"), []any{}, nobody},
		"other addresses, version 6":   {block("::/0"), []any{block("::/0")}, ""},
		"what validation would refuse": {block("10.244.0.0"), []any{}, ""},
	} {
		policy := map[string]any{"spec": map[string]any{"ingress": []any{map[string]any{"from": []any{c.peer}}}}}
		findings := Filter(kind, policy, p)
		want := []any{map[string]any{"from": c.want}}
		if len(c.want) == 0 {
			want = []any{} // no peers would be everybody
		}
		if diff := cmp.Diff(want, policy["spec"].(map[string]any)["ingress"]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if c.why == "" && len(findings) > 0 || c.why != "" && (len(findings) != 1 || findings[0].Why != c.why || findings[0].Field != "spec.ingress[0].from[0].ipBlock") {
			t.Errorf("%s: %v", name, findings)
		}
	}
}
