package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// warn tells a user what is wrong with where the object goes: the decision stands, but
// the policies do not permit it any more, or a target lacks what a new object needs. It
// looks at informers only; what they do not know yet is said by the Placement and the
// Copies.
func (p *placing) warn(ctx context.Context, r *request, kind workload.Kind, unit stamp.Unit) error {
	if !r.user() || unit == nil || kind.Role != workload.Placed {
		return nil
	}
	for _, name := range r.belongs.units {
		stands, ok := p.placements.Get(controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace(), Name: name})
		if !ok {
			continue
		}
		c := meta.FindStatusCondition(stands.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied)
		if c != nil && c.Status == metav1.ConditionFalse {
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: %s", unitName(r.GetNamespace(), name), c.Message))
		}
	}
	p.warnOfUnit(ctx, r, unit)
	warnDivided(ctx, r, kind)
	p.warnApart(ctx, r, kind, unit)
	p.warnOfOverrides(ctx, r, kind)
	if r.GetOperation() != admission.Create {
		return nil
	}
	var needs placement.Needs
	if err := includeObject(&needs, kind, r.GetObject()); err != nil {
		return nil // the validation of the kind says it better
	}
	needs.RuntimeHandlers, needs.IngressClasses = nil, nil // permitted warns of these, by their field
	for _, name := range unit.Names() {
		c, ok := p.decider.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if !ok || unit[name] != stamp.PartStays && unit[name] != stamp.PartArrives {
			continue
		}
		if lacks := placement.Lacks(placement.PhysicalCluster{PhysicalCluster: c}, placement.Unit{Needs: needs}); lacks != "" {
			warning.AddWarning(ctx, "", fmt.Sprintf("%s is placed on %s, which does not have what this needs: %s", unitName(r.GetNamespace(), r.belongs.units[0]), name, lacks))
		}
	}
	return nil
}

// warnOfUnit tells a user that an object changes its unit, and that several policies
// select it.
func (p *placing) warnOfUnit(ctx context.Context, r *request, unit stamp.Unit) {
	if also := r.belongs.also; len(also) > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("policies %s and %s select it; %s counts, the first by name",
			r.belongs.units[0], strings.Join(also, ", "), r.belongs.units[0]))
	}
	if r.belongs.divided && r.old != nil && unit.Outside(r.old) {
		warning.AddWarning(ctx, "", fmt.Sprintf("it belongs to %s, and moves from %s to %s",
			unitName(r.GetNamespace(), r.belongs.units[0]), strings.Join(stamp.Kept(r.old), ", "), strings.Join(unit.Names(), ", ")))
	}
}

// warnApart tells a user that a claim has a volume of its own on each of several physical clusters. It is said with
// each write: what is written to one of them is on no other.
func (p *placing) warnApart(ctx context.Context, r *request, kind workload.Kind, unit stamp.Unit) {
	on := slices.DeleteFunc(unit.Names(), func(name string) bool { return unit[name].Left() })
	if !kind.IsClaim() || len(on) < 2 || stamp.Mirrored(r.obj) || stamp.SharesVolume(r.obj) {
		return
	}
	content, err := external(kind, r.GetObject())
	if err != nil {
		return // the validation of the kind says it better
	}
	o := transition.Object{Kind: kind, Logical: &unstructured.Unstructured{Object: content}, Unit: unit}
	if why := o.Apart(on, p.physicalCluster); why != "" {
		warning.AddWarning(ctx, "", fmt.Sprintf("claim %s has a volume and data of its own on each of %s (%s); place it on one physical cluster, or use access modes that are all of many with a class that an admin has declared Shared on all of them",
			r.obj.GetName(), strings.Join(on, ", "), why))
	}
}
