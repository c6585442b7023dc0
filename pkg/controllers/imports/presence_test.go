package imports

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestALogicalClusterIsWhereItsNamespacesAre(t *testing.T) {
	t.Parallel()
	p := presence{counts: map[logicalcluster.Name]map[string]int{}}
	on := func(states ...string) placementv1alpha1.Targets {
		out := placementv1alpha1.Targets{}
		for i := 0; i < len(states); i += 2 {
			out[states[i]] = placementv1alpha1.Target{State: placementv1alpha1.TargetState(states[i+1])}
		}
		return out
	}
	for i, step := range []struct {
		cluster     logicalcluster.Name
		before, now placementv1alpha1.Targets
		changed     bool
		want        []string
	}{
		{"a", nil, on("east", ""), true, []string{"east"}},
		{"a", nil, on("east", "", "west", "Waiting"), false, []string{"east"}},
		{"b", nil, on("north", ""), true, []string{"north"}},
		{"a", on("east", "", "west", "Waiting"), on("east", "Draining", "west", ""), true, []string{"east", "west"}},
		{"a", on("east", "Draining", "west", ""), on("east", "Removing", "west", ""), false, []string{"east", "west"}},
		{"a", on("east", "Removing", "west", ""), on("west", ""), false, []string{"east", "west"}},
		{"a", on("east", ""), on("west", ""), true, []string{"west"}},
		{"a", on("west", ""), nil, false, []string{"west"}},
		{"a", on("west", ""), nil, true, nil},
		{"b", on("north", ""), on("south", ""), true, []string{"south"}},
	} {
		if changed := p.move(step.cluster, step.before, step.now); changed != step.changed {
			t.Errorf("step %d: changed %v", i, changed)
		}
		if diff := cmp.Diff(step.want, p.of(step.cluster)); diff != "" {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
	}
	if len(p.counts) != 1 {
		t.Errorf("what is gone is remembered: %v", p.counts)
	}
}
