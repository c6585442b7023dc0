package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// handedOver is, as far as volumes count, what the targets of a claim follow from. A tenant can name no
// volume: it comes from the Copies that syncers write, as far as admins declared them to share it.
func (p *placing) handedOver(r *request, kind workload.Kind, obj metav1.Object, unit stamp.Unit) (transition.Object, error) {
	o := transition.Object{Kind: kind, Unit: unit}
	if !kind.IsClaim() || len(unit) < 2 {
		return o, nil
	}
	content, err := external(kind, r.GetObject())
	if err != nil {
		return o, err
	}
	o.Logical = &unstructured.Unstructured{Object: content}
	if p.copies != nil {
		o.Copies = p.copiesOf(r, kind, obj)
	}
	delete(content, "metadata") // that of obj is what is stamped
	o.Logical.SetAnnotations(obj.GetAnnotations())
	o.HandOver(p.holders, p.physicalCluster)
	return o, nil
}

func (p *placing) holders(is placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy {
	return copyindex.Holding(p.copies, is)
}

func (p *placing) physicalCluster(name string) *fleetv1alpha1.PhysicalCluster {
	pc, _ := p.decider.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	return pc
}

var claimsResource = corev1.Resource("persistentvolumeclaims")

// opens says that what mounts claims need not wait until they are given up where its unit leaves.
func (p *placing) opens(ctx context.Context, r *request, kind workload.Kind, content map[string]any, unit stamp.Unit) (bool, error) {
	mounted, own := workload.ClaimsOf(kind, content)
	claims, ok := r.kinds.ByResource(claimsResource)
	if own || len(mounted) == 0 || !ok || p.copies == nil {
		return false, nil
	}
	list, err := p.stored(ctx, r, claims.GroupVersionResource())
	if err != nil {
		return false, err
	}
	var all []transition.Object
	for i := range list {
		if slices.Contains(mounted, list[i].GetName()) {
			o := transition.Object{Kind: claims, Logical: &list[i], Unit: unit}
			o.HandOver(nil, p.physicalCluster)
			all = append(all, o)
		}
	}
	return transition.Opens(kind, content, unit, all), nil
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

// fleet finds the physical clusters of a snapshot.
func (s snapshot) fleet(name string) *fleetv1alpha1.PhysicalCluster {
	for _, c := range s.PhysicalClusters {
		if c.PhysicalCluster.Name == name {
			return c.PhysicalCluster
		}
	}
	return nil
}

// shared says that a claim has one volume where its unit is and where it goes.
func shared(read snapshot, decided, next []string) func(claim transition.Object) bool {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(decided, next))))
	return func(claim transition.Object) bool { return claim.Apart(all, read.fleet) == "" }
}

// handed says why the volume of a claim is not handed over from a physical cluster when its unit
// goes to others; empty: it is. shared says of a claim that it has one volume on all of them.
func handed(read snapshot, next []string, divided bool, shared func(claim transition.Object) bool) func(claim transition.Object, from string) string {
	return func(claim transition.Object, from string) string {
		switch {
		case !divided && shared(claim):
			return ""
		case len(next) != 1:
			return fmt.Sprintf("it has one volume, and goes to %d physical clusters", len(next))
		case divided:
			return "the namespace has several units"
		case claim.Differs(from, next[0]):
			return transition.HasItsOwn(next[0])
		}
		return volume.Refusal(volume.ClaimOf(claim.Logical.Object), from, next[0], read.fleet)
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
