package podadmission

import (
	"context"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
)

// A tenant's webhook that never answers holds all places of its logical cluster.
func TestALogicalClusterWhosePodsWaitLeavesPlacesToOthers(t *testing.T) {
	p := newPlaces()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var given []func()
	for range maxOfOne {
		give, err := p.take(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		given = append(given, give)
	}
	if _, err := p.take(ended, "shop"); err == nil {
		t.Error("one more has a place")
	}
	for _, c := range []logicalcluster.Name{"web", "lab"} {
		give, err := p.take(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		give()
	}
	given[0]()
	give, err := p.take(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, give := range append(given[1:], give) {
		give()
	}
	if len(p.of) != 0 || len(p.all) != 0 {
		t.Errorf("%d shares and %d places are left", len(p.of), len(p.all))
	}
}
