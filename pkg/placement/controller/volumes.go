package controller

import (
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// handOver finds the volume that a claim gets where its unit goes.
func (c *Controller) handOver(o *transition.Object) {
	o.Volume, o.NoVolume = o.HandOver(func(is placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy {
		return copyindex.Holding(c.Copies, is)
	}, c.physicalCluster)
}

func (c *Controller) physicalCluster(name string) *fleetv1alpha1.PhysicalCluster {
	pc, _ := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	return pc
}
