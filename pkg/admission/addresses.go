package admission

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// keepAddresses leaves the addresses of a pod to who runs it. Services and NetworkPolicies on other
// physical clusters lead to them, and with them load balancers and ports of nodes, whose traffic
// passes what keeps tenants apart: an address that a user writes would be anybody's. In root
// nothing is placed.
func keepAddresses(ctx context.Context, r *request) {
	pod, ok := r.GetObject().(*core.Pod)
	old, had := r.GetOldObject().(*core.Pod)
	if !ok || !had || !r.user() || r.GetSubresource() != "status" || r.cluster == scope.Root {
		return
	}
	is, was := &pod.Status, &old.Status
	if slices.Equal(is.PodIPs, was.PodIPs) && slices.Equal(is.HostIPs, was.HostIPs) && is.PodIP == was.PodIP && is.HostIP == was.HostIP {
		return
	}
	is.PodIP, is.PodIPs = was.PodIP, slices.Clone(was.PodIPs)
	is.HostIP, is.HostIPs = was.HostIP, slices.Clone(was.HostIPs)
	warning.AddWarning(ctx, "", "status: the addresses of a pod are those that it has on its physical cluster; they stay as they were")
}
