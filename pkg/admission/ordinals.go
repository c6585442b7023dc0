package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ordinals finds out what a StatefulSet that is divided by ordinals has to keep off.
//
//	the StatefulSet                                            then
//	is new, and Copies or pods of an earlier one of the name   nothing is begun elsewhere before these
//	are on physical clusters of the division                   have ended
//	is new, and such are on others                             refused: nobody there would say when
//	is new, with claims of an earlier one                      ordinals are where their claims are;
//	                                                           refused if no ranges can be that way
//	is divided, has claims, and its first ordinal changes      refused: they would not be where they are
//
// This is read from the database, not from a cache.
func (p *placing) ordinals(ctx context.Context, r *request, kind workload.Kind, o *stamp.Ordinals, content map[string]any) error {
	if r.old != nil && stamp.Ranged(r.old) {
		before, err := external(kind, r.GetOldObject())
		if err == nil && o.Claims && workload.FirstOrdinal(before) != o.Start {
			err = refuse(r, "spec.ordinals.start cannot change while it is divided over several physical clusters: claims of its pods stay where they are. Delete it with --cascade=orphan and make it anew on one")
		}
		return err
	}
	if stamp.HasTargets(r.obj) || p.units.lookup.dynamic == nil || r.GetName() == "" {
		return nil
	}
	names := make([]string, 0, len(r.division.Targets))
	for _, t := range r.division.Targets {
		names = append(names, t.PhysicalCluster)
	}
	unclear, err := p.unclear(ctx, r, kind)
	if err != nil {
		return err
	}
	for name := range unclear {
		if !slices.Contains(names, name) {
			return refuse(r, fmt.Sprintf("pods of an earlier one may run on %s, where this one does not go: delete them, or wait for their end", name))
		}
	}
	o.Unclear = unclear
	if o.Claims {
		o.Former, err = p.claimsOf(ctx, r, kind, content)
	}
	return err
}

func refuse(r *request, why string) error {
	return apierrors.NewForbidden(r.groupResource(), r.GetName(), errors.New(why))
}

// unclear are the physical clusters where pods of an earlier StatefulSet of the name may run.
func (p *placing) unclear(ctx context.Context, r *request, kind workload.Kind) (map[string]bool, error) {
	copies, err := p.stored(ctx, r, placementv1alpha1.SchemeGroupVersion.WithResource("copies"))
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i := range copies {
		field := func(path ...string) string { s, _, _ := unstructured.NestedString(copies[i].Object, path...); return s }
		if field("spec", "object", "resource") == kind.Resource && field("spec", "object", "group") == kind.Group && field("spec", "object", "name") == r.GetName() &&
			field("status", "state") != string(placementv1alpha1.CopyRemoved) {
			out[field("spec", "physicalCluster")] = true
		}
	}
	pods, err := p.stored(ctx, r, corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if _, ok := workload.OrdinalOf(r.GetName(), pods[i].GetName()); ok {
			for name, target := range stamp.TargetsOf(pods[i].GetAnnotations()) {
				if !target.NoCopy() {
					out[name] = true
				}
			}
		}
	}
	return out, nil
}

// claimsOf are the ordinals of which physical clusters have claims.
func (p *placing) claimsOf(ctx context.Context, r *request, kind workload.Kind, content map[string]any) (map[string]placementv1alpha1.OrdinalRange, error) {
	claims, err := p.stored(ctx, r, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"))
	if err != nil {
		return nil, err
	}
	out := map[string]placementv1alpha1.OrdinalRange{}
	for _, template := range workload.VolumeClaims(kind, content) {
		name, _, _ := unstructured.NestedString(template, "metadata", "name")
		for i := range claims {
			n, ok := workload.OrdinalOf(name+"-"+r.GetName(), claims[i].GetName())
			if !ok {
				continue
			}
			for at, target := range stamp.TargetsOf(claims[i].GetAnnotations()) {
				if target.NoCopy() || target.State == placementv1alpha1.TargetStateRemoving {
					continue
				}
				has, some := out[at]
				if !some {
					has = placementv1alpha1.OrdinalRange{Start: n, End: n + 1}
				}
				out[at] = placementv1alpha1.OrdinalRange{Start: min(has.Start, n), End: max(has.End, n+1)}
			}
		}
	}
	var mixed []string
	for a, x := range out {
		for b, y := range out {
			if a < b && x.Start < y.End && y.Start < x.End {
				mixed = append(mixed, a+" and "+b)
			}
		}
	}
	if slices.Sort(mixed); len(mixed) > 0 {
		return nil, refuse(r, "claims of an earlier one are on "+strings.Join(mixed, ", ")+" in no order in which each could have one range of ordinals: have it run on one physical cluster, or delete what is not needed")
	}
	return out, nil
}

// stored reads objects of the namespace from the database.
func (p *placing) stored(ctx context.Context, r *request, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := p.units.lookup.dynamic.Resource(resource).Namespace(r.GetNamespace()).List(at(ctx, r.cluster), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", resource.Resource, err)
	}
	return list.Items, nil
}
