package boundary

import (
	"maps"
	"slices"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Permits is what a physical cluster lets tenants do beyond the default. The zero
// value is the default: nothing that names something outside of the tenant.
type Permits = fleetv1alpha1.Tenancy

// nodeLabels say where and on what a pod runs, and nothing about other tenants.
var nodeLabels = []string{
	"kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/", "node.kubernetes.io/instance-type",
}

// ordinaryTaints are what Kubernetes itself lets every pod tolerate for a while.
var ordinaryTaints = []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

// VolumeTypes are the types of volumes that a physical cluster may permit. Nobody
// permits commands as root on a node, which gitRepo is.
func VolumeTypes() []string {
	types := maps.Clone(rows["core/v1 VolumeSource"])
	maps.DeleteFunc(types, func(name string, r row) bool { return r.verdict != Refused || name == "gitRepo" })
	return slices.Sorted(maps.Keys(types))
}
