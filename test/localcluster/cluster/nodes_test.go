package cluster

import "testing"

func TestNodesHaveRangesOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		pods string
		node int
		want string
	}{
		{"", 0, "10.244.0.0/24"}, {"", 3, "10.244.3.0/24"}, {"", 256, "10.245.0.0/24"}, {"10.7.0.0/16", 1, "10.7.1.0/24"},
		{"10.7.9.1/24", 0, "10.7.9.0/24"}, {"fd00::/48", 0, "fd00::/64"}, {"fd00::/48", 258, "fd00:0:0:102::/64"}, {"fd00::/80", 0, ""},
		{"10.0.0.0/25", 0, ""}, {"none", 0, ""},
	} {
		got := ""
		if pods, err := podsOf(Options{Pods: c.pods}); err == nil {
			got = podCIDR(pods, c.node)
		}
		if got != c.want {
			t.Errorf("--pods %q, node %d: %q, want %q", c.pods, c.node, got, c.want)
		}
	}
}
