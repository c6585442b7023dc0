package nodes

import (
	"fmt"
	"maps"

	"github.com/google/uuid"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// space is the name space of the UIDs of Nodes.
var space = uuid.MustParse("0f0b3f0a-6c9e-4be5-8d25-64a0b7e0a1d7")

// nodeOf is a physical cluster as a Node of a logical cluster.
func nodeOf(pc *fleet.PhysicalCluster, c logicalcluster.Name) *corev1.Node {
	labels := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(labels, pc.Labels)
	labels[corev1.LabelHostname] = pc.Name
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: pc.Name, UID: types.UID(uuid.NewSHA1(space, fmt.Appendf(nil, "%s|%s", c, pc.UID)).String()),
			ResourceVersion: pc.ResourceVersion, CreationTimestamp: pc.CreationTimestamp,
			Labels: labels, Annotations: map[string]string{logicalcluster.AnnotationKey: c.String()},
		},
		Spec: corev1.NodeSpec{ProviderID: "atoll://" + pc.Name, Unschedulable: pc.Spec.Unschedulable, Taints: pc.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: pc.Status.Capacity, Allocatable: pc.Status.Allocatable, Conditions: conditions(pc),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: pc.Name}},
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: pc.Status.Version, OperatingSystem: "linux", OSImage: "physical cluster"},
		},
	}
}

// conditions are Ready as it is reported, and no pressure that nobody reports.
func conditions(pc *fleet.PhysicalCluster) []corev1.NodeCondition {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NeverReported",
		Message: "no syncer has reported yet", LastTransitionTime: pc.CreationTimestamp, LastHeartbeatTime: pc.CreationTimestamp}
	if c := meta.FindStatusCondition(pc.Status.Conditions, fleet.ConditionReady); c != nil {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionStatus(c.Status), c.Reason, c.Message
		ready.LastTransitionTime, ready.LastHeartbeatTime = c.LastTransitionTime, c.LastTransitionTime
	}
	out := []corev1.NodeCondition{}
	for _, none := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		out = append(out, corev1.NodeCondition{Type: none, Status: corev1.ConditionFalse, Reason: "NotReported",
			LastTransitionTime: ready.LastTransitionTime, LastHeartbeatTime: ready.LastHeartbeatTime})
	}
	return append(out, ready)
}
