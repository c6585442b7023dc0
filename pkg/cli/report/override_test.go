package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestOverridesAreExplainedWithWhereTheyHold(t *testing.T) {
	list := []placementv1alpha1.DecidedOverride{
		{Name: "overrides[0] of policy mirror", PhysicalClusters: []string{"east", "west"},
			Objects: &placementv1alpha1.ObjectSelection{Kinds: []placementv1alpha1.ObjectKind{{Group: "apps", Kind: "Deployment"}}, Names: []string{"web"}},
			Patch:   []placementv1alpha1.PatchOperation{{Op: "test", Path: "/spec/paused"}, {Op: "remove", Path: "/spec/paused"}}},
		{Name: "overrides[1] of policy mirror", PhysicalClusters: []string{"east"}, Problem: "too long"},
	}
	p := &placementv1alpha1.Placement{}
	p.Name, p.Namespace = placementv1alpha1.NamespaceUnit, "web"
	p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}, {Name: "west"}}, Overrides: list}
	want := []string{
		"On east, west, for Deployment web, overrides[0] of policy mirror: test /spec/paused, remove /spec/paused.",
		"On east, for all objects, overrides[1] of policy mirror: cannot be honoured, and nothing that it is for goes down: too long.",
	}
	if diff := cmp.Diff(want, ExplainPlacement(p).Lines[2:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := placementv1alpha1.PlacementReviewStatus{PhysicalClusters: []string{"east", "west"}, Overrides: list}
	if diff := cmp.Diff(want, ExplainReview("web", s).Lines[2:]); diff != "" {
		t.Errorf("a review (-want +got):\n%s", diff)
	}
}
