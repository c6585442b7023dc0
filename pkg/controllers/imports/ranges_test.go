package imports

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesOfTwoPhysicalClustersOfANetworkAreThoseOfNeither(t *testing.T) {
	t.Parallel()
	m := func(network string, named bool, ranges ...string) Member {
		m := Member{Network: network, Named: named, Known: true}
		for _, r := range ranges {
			m.Ranges = append(m.Ranges, netip.MustParsePrefix(r))
		}
		return m
	}
	for name, c := range map[string]struct {
		fleet Fleet
		want  string // ranges of a, and of b
	}{
		"apart":                    {Fleet{"a": m("n", false, "10.1.0.0/16", "fd00::/48"), "b": m("n", false, "10.2.0.0/16")}, "10.1.0.0/16 fd00::/48, 10.2.0.0/16"},
		"the same":                 {Fleet{"a": m("n", false, "10.1.0.0/16"), "b": m("n", false, "10.1.0.0/16")}, ", "},
		"one inside of another":    {Fleet{"a": m("n", false, "10.0.0.0/8"), "b": m("n", false, "10.1.0.0/16", "172.16.0.0/16")}, ", 172.16.0.0/16"},
		"an admin named one":       {Fleet{"a": m("n", false, "10.0.0.0/8", "172.16.0.0/16"), "b": m("n", true, "10.1.0.0/16")}, "172.16.0.0/16, 10.1.0.0/16"},
		"an admin named the other": {Fleet{"a": m("n", true, "10.0.0.0/8"), "b": m("n", false, "10.1.0.0/16")}, "10.0.0.0/8, "},
		"an admin named both":      {Fleet{"a": m("n", true, "10.0.0.0/8"), "b": m("n", true, "10.1.0.0/16")}, ", "},
		"in other networks":        {Fleet{"a": m("n", false, "10.1.0.0/16"), "b": m("m", false, "10.1.0.0/16")}, "10.1.0.0/16, 10.1.0.0/16"},
		"one's own":                {Fleet{"a": m("n", false, "10.1.0.0/16", "10.1.0.0/24"), "b": m("n", false, "10.2.0.0/16")}, "10.1.0.0/16 10.1.0.0/24, 10.2.0.0/16"},
		"one after another in it":  {Fleet{"a": m("n", false, "10.0.0.0/8"), "b": m("n", false, "10.1.0.0/16"), "c": m("n", false, "10.2.0.0/16")}, ", "},
	} {
		settled := c.fleet.Settled()
		text := func(name string) string { return strings.Trim(fmt.Sprint(settled[name].Ranges), "[]") }
		if got := text("a") + ", " + text("b"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if a := settled["a"]; len(a.Ranges) == 0 && a.has(netip.MustParseAddr("10.1.0.1")) {
			t.Errorf("%s: what has lost its ranges has any address", name)
		}
	}
	many := Fleet{}
	for i := range 2000 { // whoever says the most costs no more than reading it does
		var ranges []string
		for j := range 16 {
			ranges = append(ranges, fmt.Sprintf("10.%d.%d.0/24", i%250, (i/250)*16+j))
		}
		many[fmt.Sprint(i)] = m("n", false, ranges...)
	}
	if settled := many.Settled(); len(settled["7"].Ranges) != 16 {
		t.Errorf("ranges that are apart are lost: %v", settled["7"])
	}
}
