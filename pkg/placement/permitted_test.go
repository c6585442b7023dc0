package placement

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAPhysicalClusterThatDoesNotPermitWhatIsAskedIsNotChosen(t *testing.T) {
	var s Snapshot
	for _, name := range []string{"east", "west"} {
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		s.PhysicalClusters = append(s.PhysicalClusters, PhysicalCluster{PhysicalCluster: pc})
	}
	const what = "spec.externalIPs: takes traffic"
	u := Unit{LogicalCluster: "shop", Namespace: "web", NotPermitted: map[string]string{"east": what}}
	d := Decide(s, u)
	if len(d.PhysicalClusters) != 1 || d.PhysicalClusters[0] != "west" || len(d.Rejected) != 1 ||
		d.Rejected[0].API() != (placementv1alpha1.RejectedPhysicalCluster{PhysicalCluster: "east", Reason: ReasonNotPermitted, Message: "it does not permit " + what}) {
		t.Errorf("%+v", d)
	}
	u.NotPermitted["west"] = what
	if d := Decide(s, u); d.Possible() {
		t.Errorf("%+v", d)
	}
	// What runs there already stays when a permit is taken back.
	u.Decided = []string{"east"}
	if d := Decide(s, u); len(d.PhysicalClusters) != 1 || d.PhysicalClusters[0] != "east" {
		t.Errorf("not kept: %+v", d)
	}
}
