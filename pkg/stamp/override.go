package stamp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// OverridesOf are what a placement changes of copies, in order.
func OverridesOf(p *placementv1alpha1.Placement) []placementv1alpha1.DecidedOverride {
	if p == nil || p.Spec.Decision == nil {
		return nil
	}
	return p.Spec.Decision.Overrides
}

// MergeOverrides are those of what is in several units: each once, where one of them has
// it.
func MergeOverrides(units ...[]placementv1alpha1.DecidedOverride) []placementv1alpha1.DecidedOverride {
	var out []placementv1alpha1.DecidedOverride
	for _, unit := range units {
		for _, o := range unit {
			i := slices.IndexFunc(out, func(has placementv1alpha1.DecidedOverride) bool { return sameOverride(has, o) })
			if i < 0 {
				o.PhysicalClusters = slices.Clone(o.PhysicalClusters)
				out = append(out, o)
				continue
			}
			for _, name := range o.PhysicalClusters {
				if !slices.Contains(out[i].PhysicalClusters, name) {
					out[i].PhysicalClusters = append(out[i].PhysicalClusters, name)
				}
			}
		}
	}
	return out
}

func sameOverride(a, b placementv1alpha1.DecidedOverride) bool {
	a.PhysicalClusters, b.PhysicalClusters = nil, nil
	return a.Name == b.Name && sameJSON(a, b)
}

// overridden gives wanted targets what changes of the object on each.
//
//	the target                    has a copy   is of a kind that       then the overrides
//	of the decision               no           any                     of the decision
//	                              yes          can be changed          of the decision
//	                              yes          is made again instead   that it has: nothing is started anew
//	of no decision: it is left    yes          any                     that it has
//
// The overrides of all targets are in one annotation: if they are too long for it, none
// goes down.
func overridden(rule []placementv1alpha1.DecidedOverride, decided Unit, kind workload.Kind, obj metav1.Object, current, wanted placementv1alpha1.Targets) {
	size := 0
	for name, target := range wanted {
		if !target.Keeps() && target.State != placementv1alpha1.TargetStateWaiting {
			continue
		}
		if has, ok := current[name]; ok && has.Keeps() && (kind.Recreate || decided[name].Left()) {
			target.Overrides = has.Overrides
		} else {
			target.Overrides = overridesFor(rule, name, kind, obj)
		}
		for _, o := range target.Overrides {
			size += override.Bytes(o.Patch, o.Permits) + len(o.Name) + len(o.Problem)
		}
		wanted[name] = target
	}
	if size <= override.MaxBytesOfObject {
		return
	}
	for name, target := range wanted {
		if len(target.Overrides) > 0 {
			target.Overrides = []placementv1alpha1.TargetOverride{{
				Name: "overrides", Problem: fmt.Sprintf("those of all its targets have more than %d bytes; shorten them", override.MaxBytesOfObject),
			}}
			wanted[name] = target
		}
	}
}

func overridesFor(rule []placementv1alpha1.DecidedOverride, target string, kind workload.Kind, obj metav1.Object) []placementv1alpha1.TargetOverride {
	var out []placementv1alpha1.TargetOverride
	for _, o := range rule {
		if slices.Contains(o.PhysicalClusters, target) && ReadSelection(o.Objects).Selects(kind, obj) {
			out = append(out, placementv1alpha1.TargetOverride{Name: o.Name, Patch: o.Patch, Permits: o.Permits, Problem: o.Problem})
		}
	}
	return out
}

// permitted gives the targets of a Namespace what policies permit there, to whatever objects: the
// namespace below has the level of all that is in it. If that is too long, its objects say so, and
// it has nothing of it.
func permitted(rule []placementv1alpha1.DecidedOverride, wanted placementv1alpha1.Targets) {
	size := 0
	for name, target := range wanted {
		target.Overrides = nil
		for _, o := range rule {
			if o.Permits != nil && o.Problem == "" && slices.Contains(o.PhysicalClusters, name) {
				target.Overrides = append(target.Overrides, placementv1alpha1.TargetOverride{Name: o.Name, Permits: o.Permits})
				size += override.Bytes(nil, o.Permits) + len(o.Name)
			}
		}
		wanted[name] = target
	}
	for name, target := range wanted {
		if size > override.MaxBytesOfObject {
			target.Overrides = nil
			wanted[name] = target
		}
	}
}

func sameOverrides(a, b []placementv1alpha1.TargetOverride) bool {
	return len(a) == len(b) && (len(a) == 0 || sameJSON(a, b))
}

// sameJSON compares what was decoded, of which an empty list may be nil.
func sameJSON(a, b any) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
