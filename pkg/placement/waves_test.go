package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func ofStage(name, stage string) PhysicalCluster {
	return PhysicalCluster{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"stage": stage}}}}
}

func TestWavesShareOutPhysicalClusters(t *testing.T) {
	from := []PhysicalCluster{ofStage("a", "prod"), ofStage("b", "test"), ofStage("c", "prod"), ofStage("d", "prod")}
	test := &placementv1alpha1.PhysicalClusterTerm{MatchLabels: map[string]string{"stage": "test"}}
	for _, c := range []struct {
		name   string
		waves  []placementv1alpha1.RolloutWave
		chosen []string
		want   []placementv1alpha1.DecidedWave
	}{
		{
			"by label, and the rest is a last one", []placementv1alpha1.RolloutWave{{Term: test, SoakSeconds: 60}}, []string{"a", "b", "c"},
			[]placementv1alpha1.DecidedWave{{PhysicalClusters: []string{"b"}, SoakSeconds: 60}, {PhysicalClusters: []string{"a", "c"}}},
		},
		{
			"by count, the first by name", []placementv1alpha1.RolloutWave{{Count: ptr.To[int32](1)}, {Count: ptr.To[int32](2)}, {Approval: placementv1alpha1.ApprovalManual}}, []string{"a", "b", "c", "d"},
			[]placementv1alpha1.DecidedWave{{PhysicalClusters: []string{"a"}}, {PhysicalClusters: []string{"b", "c"}}, {PhysicalClusters: []string{"d"}, Approval: placementv1alpha1.ApprovalManual}},
		},
		{
			"that select nothing are left out", []placementv1alpha1.RolloutWave{{Term: test}, {}}, []string{"a", "c"},
			[]placementv1alpha1.DecidedWave{{PhysicalClusters: []string{"a", "c"}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, ok, err := newWaves(Policy{Rules: &placementv1alpha1.PolicyRules{Rollout: &placementv1alpha1.Rollout{Waves: c.waves}}})
			if !ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
			if diff := cmp.Diff(&placementv1alpha1.DecidedRollout{Waves: c.want}, w.over(c.chosen, from)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWaveThatCannotBeReadIsNamed(t *testing.T) {
	r := &placementv1alpha1.PolicyRules{Rollout: &placementv1alpha1.Rollout{Waves: []placementv1alpha1.RolloutWave{
		{}, {Count: ptr.To[int32](0)}, {SoakSeconds: -1}, {Approval: "Perhaps"}, {Term: &placementv1alpha1.PhysicalClusterTerm{MatchLabels: map[string]string{"-": ""}}},
	}}}
	var got []string
	for _, err := range ValidateRules(r, field.NewPath("spec")) {
		got = append(got, err.Field)
	}
	want := []string{"spec.rollout.waves[1].count", "spec.rollout.waves[2].soakSeconds", "spec.rollout.waves[3].approval", "spec.rollout.waves[4].term.matchLabels"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if errs := ValidateRules(&placementv1alpha1.PolicyRules{Rollout: &placementv1alpha1.Rollout{}}, field.NewPath("spec")); len(errs) != 1 {
		t.Errorf("no wave: %v", errs)
	}
}
