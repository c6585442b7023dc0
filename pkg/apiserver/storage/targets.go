package storage

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/coordination"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	objectstamp "github.com/atoll-dev/atoll/pkg/stamp"
)

// TargetsOf returns the names of the physical clusters that obj is visible to:
// a Copy and an Orphan to its own, a PhysicalCluster and its Lease (both in "root",
// named like it) to themselves, a PlacedKind to those that its status lists, everything else to those of its targets annotation.
func TargetsOf(obj runtime.Object) []string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	switch o := obj.(type) {
	case *placementv1alpha1.Copy:
		return []string{o.Spec.PhysicalCluster}
	case *fleetv1alpha1.Orphan:
		return []string{o.Spec.PhysicalCluster}
	case *fleetv1alpha1.PlacedKind:
		return o.Status.PhysicalClusters
	case *fleetv1alpha1.PhysicalCluster, *coordination.Lease:
		if clusterOf(obj) == scope.Root {
			return []string{m.GetName()}
		}
	}
	return objectstamp.TargetsOf(m.GetAnnotations()).Names()
}
