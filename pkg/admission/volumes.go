package admission

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/volume"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// volumeOf is the volume that a claim gets where its unit goes; nil: none as yet. A tenant can
// name no volume: it comes from the Copies that syncers write, as far as admins declared them to
// share it.
func (p *placing) volumeOf(r *request, kind workload.Kind, obj metav1.Object, unit stamp.Unit) *placementv1alpha1.TargetVolume {
	if !kind.IsClaim() || p.copies == nil || unit.Settled() {
		return nil
	}
	o := transition.Object{Kind: kind, Logical: &unstructured.Unstructured{}, Unit: unit, Copies: p.copiesOf(r, kind, obj)}
	o.Logical.SetAnnotations(obj.GetAnnotations())
	v, _ := o.HandOver(func(is placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy {
		return copyindex.Holding(p.copies, is)
	},
		func(name string) *fleetv1alpha1.PhysicalCluster {
			pc, _ := p.decider.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
			return pc
		})
	return v
}

// copiesOf are the Copies of an object, by target, as the informer has them.
func (p *placing) copiesOf(r *request, kind workload.Kind, obj metav1.Object) map[string]*placementv1alpha1.Copy {
	out := map[string]*placementv1alpha1.Copy{}
	for _, c := range copyindex.Of(p.copies, copyindex.Object{Resource: kind.GroupResource(),
		Object: controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace(), Name: obj.GetName()}}) {
		if c.Spec.Object.UID == obj.GetUID() {
			out[c.Spec.PhysicalCluster] = c
		}
	}
	return out
}

// handed says why the volume of a claim is not handed over from a physical cluster when its unit
// goes to others; empty: it is.
func handed(read snapshot, next []string, divided bool) func(claim transition.Object, from string) string {
	fleet := func(name string) *fleetv1alpha1.PhysicalCluster {
		for _, c := range read.PhysicalClusters {
			if c.PhysicalCluster.Name == name {
				return c.PhysicalCluster
			}
		}
		return nil
	}
	return func(claim transition.Object, from string) string {
		switch {
		case len(next) != 1:
			return fmt.Sprintf("it has one volume, and goes to %d physical clusters", len(next))
		case divided:
			return "the namespace has several units"
		}
		return volume.Refusal(volume.ClaimOf(claim.Logical.Object), from, next[0], fleet)
	}
}

// forgotten says that an admin declared a physical cluster lost for good.
func (s snapshot) forgotten(name string) bool {
	return slices.ContainsFunc(s.PhysicalClusters, func(c placement.PhysicalCluster) bool { return c.Name == name && c.Spec.Forget })
}

// withoutSecrets takes the volume out of what a syncer says of a claim if it has attributes that its admin
// has not declared: who may read Copies would read them. A syncer from before attributes were declared
// says all of them.
func (p *plugin) withoutSecrets(r *request) {
	c, ok := r.obj.(*placementv1alpha1.Copy)
	if !ok || r.syncer == "" || c.Status.Volume == nil || c.Status.Volume.Source == nil {
		return
	}
	if len(volume.ValidateSource(c.Status.Volume.Source, nil)) > 0 {
		return // is refused
	}
	var declared fleetv1alpha1.ClassVolumes
	if pc, ok := p.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: r.syncer}); ok {
		declared = pc.VolumesOf(c.Status.Volume.Source.StorageClass)
	}
	if keys := volume.Undeclared(c.Status.Volume.Source.Attributes, declared.Attributes); keys != "" {
		v := c.Status.Volume.DeepCopy()
		v.Source, v.Reason = nil, volume.ReasonUndeclared(keys)
		c.Status.Volume = v
	}
}
