package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestANodeShowsWhatItsPhysicalClusterReports(t *testing.T) {
	pc := &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "1", ResourceVersion: "7",
		Labels: map[string]string{"topology.kubernetes.io/region": "eu", corev1.LabelHostname: "forged"}, Annotations: map[string]string{"of": "the admin"}}}
	pc.Spec.Unschedulable = true
	n := nodeOf(pc, "shop")
	if n.Name != "east" || n.ResourceVersion != "7" || n.Labels["topology.kubernetes.io/region"] != "eu" || n.Labels[corev1.LabelHostname] != "east" ||
		!n.Spec.Unschedulable || n.Annotations["of"] != "" || n.Annotations["kcp.io/cluster"] != "shop" {
		t.Errorf("node %+v", n)
	}
	if other := nodeOf(pc, "other"); other.UID == n.UID {
		t.Error("two logical clusters have the same UID")
	}
	status := func(pc *fleet.PhysicalCluster) corev1.ConditionStatus {
		for _, c := range conditions(pc) {
			if c.Type == corev1.NodeReady {
				return c.Status
			}
		}
		return ""
	}
	if got := status(pc); got != corev1.ConditionUnknown {
		t.Errorf("before any report it is ready: %s", got)
	}
	pc.Status.Conditions = []metav1.Condition{{Type: fleet.ConditionReady, Status: metav1.ConditionTrue, Reason: "Reported"}}
	if got := status(pc); got != corev1.ConditionTrue {
		t.Errorf("after a report it is ready: %s", got)
	}
}
