package placement

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// leftTo adds a policy that leaves the decision to another scheduler.
func leftTo(s Snapshot, scheduler string) Snapshot {
	s.Policies = append(slices.Clone(s.Policies), Policy{
		PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyGlobal, Name: "z"},
		Rules:           &placementv1alpha1.PolicyRules{SchedulerName: scheduler},
	})
	return s
}

func TestWhatWouldBeDecidedHereMayBeBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u, first := drawDecided(t)
		if u.Pin != "" {
			t.Skip("a pin is of another shape")
		}
		u.Decided, u.Bound, u.BoundBy = nil, first.PhysicalClusters, "other"
		if diff := cmp.Diff(first.PhysicalClusters, Decide(leftTo(s, "other"), u).PhysicalClusters); diff != "" {
			t.Fatalf("(-decided here +bound):\n%s", diff)
		}
	})
}

// A dumb reference: each physical cluster is permitted by itself, and of the bound ones
// alone the shape takes all.
func TestWhatIsBoundIsPermittedIfAndOnlyIfTheRulesPermitIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawSnapshot(t), drawUnit(t)
		u.Pin = ""
		u.Bound, u.BoundBy = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID[string]).Draw(t, "bound"), "other"
		slices.Sort(u.Bound)
		var want []string
		if dumbMayBind(s, u) {
			want = u.Bound
		}
		d := Decide(leftTo(s, "other"), u)
		if diff := cmp.Diff(want, d.PhysicalClusters); diff != "" {
			t.Fatalf("(-reference +Decide):\n%s\n%+v", diff, d)
		}
		if want == nil && d.Unmet == "" {
			t.Fatalf("refused without a reason: %+v", d)
		}
	})
}

func dumbMayBind(s Snapshot, u Unit) bool {
	var bound []PhysicalCluster
	for _, c := range s.PhysicalClusters {
		if has(u.Bound, c.Name) && dumbPermits(s, u, c) {
			bound = append(bound, c)
		}
	}
	if len(bound) < len(u.Bound) {
		return false
	}
	var shape *placementv1alpha1.PolicyRules
	for _, p := range dumbHeard(s, u) {
		if p.Rules.MaxCount != nil && len(bound) > int(*p.Rules.MaxCount) {
			return false
		}
		if shape == nil && (p.Rules.Count != nil || p.Rules.MinCount != nil || p.Rules.Topology != nil || p.Rules.Spread != nil) {
			shape = p.Rules
		}
	}
	return shape == nil || slices.ContainsFunc(dumbSets(shape, shape.Topology, bound), func(set []PhysicalCluster) bool { return len(set) == len(bound) })
}
