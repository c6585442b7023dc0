package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestADivisionIsExplainedWithWhatIsWaitedFor(t *testing.T) {
	division := &placementv1alpha1.DecidedDivision{By: placementv1alpha1.DivideByWeights, Targets: []placementv1alpha1.DecidedReplicas{
		{PhysicalCluster: "east", Weight: 1, Max: ptr.To(int32(4))}, {PhysicalCluster: "west", Weight: 2, Min: ptr.To(int32(1))},
	}}
	p := &placementv1alpha1.Placement{}
	p.Name, p.Namespace = placementv1alpha1.NamespaceUnit, "web"
	p.Spec.Decision = &placementv1alpha1.Decision{
		PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}, {Name: "west"}}, Division: division,
	}
	p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionDivided, Status: "False", Message: "Deployment web keeps 1 on east until others are available"}}
	if diff := cmp.Diff([]string{
		"Namespace web is placed on east, west.",
		"No policy selects it.",
		"Replicas are divided by weights: east weight 1 max 4, west weight 2 min 1.",
		"Deployment web keeps 1 on east until others are available.",
	}, ExplainPlacement(p).Lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e := ExplainReview("web", placementv1alpha1.PlacementReviewStatus{
		PhysicalClusters: []string{"east", "west"}, Division: division,
		Shares: []placementv1alpha1.ReplicaShare{{PhysicalCluster: "east", Replicas: 2}, {PhysicalCluster: "west", Replicas: 5}},
	})
	wantRows(t, e.Table, "east|WouldBeChosen|<none>|2 replicas", "west|WouldBeChosen|<none>|5 replicas")
}
