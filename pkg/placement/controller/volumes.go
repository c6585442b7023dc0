package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// handOver finds the volumes that claims get where their unit goes, and what need not wait until they
// are given up elsewhere.
func (c *Controller) handOver(objects []transition.Object) {
	var claims []transition.Object
	for i := range objects {
		if o := &objects[i]; o.Kind.IsClaim() {
			o.HandOver(c.holders, c.physicalCluster)
			claims = append(claims, *o)
		}
	}
	for i := range objects {
		if o := &objects[i]; len(claims) > 0 && o.Kind.Role == workload.Placed {
			o.Opens = transition.Opens(o.Kind, o.Logical.Object, o.Unit, claims)
		}
	}
}

// awaitsVolumes is what is said of a unit at rest in which claims wait for volumes: its copies are in place, and
// something is missing all the same.
func (c *Controller) awaitsVolumes(u *unit) string {
	if u.placement.Spec.Transition != nil {
		return "" // it says what it waits for
	}
	for _, o := range u.awaiting {
		o.Copies = map[string]*placementv1alpha1.Copy{}
		for _, one := range c.Copies.ListNamespace(u.key.Cluster, u.key.Namespace) {
			if one.Spec.Object.UID == o.Logical.GetUID() {
				o.Copies[one.Spec.PhysicalCluster] = one
			}
		}
		if why := o.Awaits(c.holders, c.physicalCluster); why != "" {
			return o.String() + " is not everywhere yet: " + why
		}
	}
	return ""
}

// metadataOf is an object of which only the metadata that its targets follow from are known.
func metadataOf(o *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetName(o.Name)
	out.SetUID(o.UID)
	out.SetAnnotations(o.Annotations)
	return out
}

func (c *Controller) holders(is placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy {
	return copyindex.Holding(c.Copies, is)
}

func (c *Controller) physicalCluster(name string) *fleetv1alpha1.PhysicalCluster {
	pc, _ := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	return pc
}
