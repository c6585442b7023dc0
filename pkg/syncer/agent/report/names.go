package report

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/names"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// resolves says whether pods are answered with the names of their logical cluster.
func (r *Reporter) resolves(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster, failure *syncer.Failure) metav1.Condition {
	c := metav1.Condition{Type: fleetv1alpha1.ConditionPodsResolveNames, ObservedGeneration: pc.Generation}
	set := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		c.Status, c.Reason, c.Message = status, reason, message
		return c
	}
	namespace := pc.Spec.Pods.Names.Namespace
	switch {
	case namespace == "":
		return set(metav1.ConditionFalse, "NotOffered", "pods ask the DNS of the physical cluster, which has other names than their logical cluster: run atoll-dns there and set spec.pods.names.namespace")
	case failure != nil:
		return set(metav1.ConditionUnknown, failure.Reason, "the physical cluster does not say whether atoll-dns is ready")
	}
	ctx, cancel := context.WithTimeout(ctx, connection.QuestionTimeout)
	defer cancel()
	list, err := r.down.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + names.AppName})
	switch {
	case err != nil:
		return set(metav1.ConditionUnknown, "NoAnswer", "the physical cluster does not say whether atoll-dns is ready")
	case !names.Ready(list.Items):
		return set(metav1.ConditionFalse, "NotReady", "no pod of atoll-dns is ready in namespace "+namespace+": names do not resolve, and pods of a logical cluster that is new there wait")
	}
	return set(metav1.ConditionTrue, "Answering", "atoll-dns in namespace "+namespace+" answers")
}
