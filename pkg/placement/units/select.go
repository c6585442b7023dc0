package units

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxSelectors is how many policies of one namespace select objects: as many as are read
// for a decision.
const maxSelectors = 32

// Selector is what one policy selects.
type Selector struct {
	// Unit is the name of the policy, and of the Placement.
	Unit string
	stamp.Selection
}

// Selectors are those of the policies of a namespace that select objects, the first by
// name first. There are none if it is one unit. A policy with a selector that cannot be
// read selects nothing: its validation said so.
func Selectors(policies []*placementv1alpha1.PlacementPolicy) []Selector {
	var out []Selector
	for _, p := range policies {
		o := p.Spec.Objects
		if o == nil || p.Name == placementv1alpha1.NamespaceUnit {
			continue
		}
		out = append(out, Selector{Unit: p.Name, Selection: stamp.ReadSelection(o)})
	}
	slices.SortFunc(out, func(a, b Selector) int { return cmp.Compare(a.Unit, b.Unit) })
	return out[:min(len(out), maxSelectors)]
}

// Selected is the unit of an object that makes pods: that of the first policy that selects
// it, else the namespace. also are the other policies that do.
func Selected(selectors []Selector, kind workload.Kind, obj metav1.Object) (unit string, also []string) {
	for _, s := range selectors {
		switch {
		case !s.Selects(kind, obj):
		case unit == "":
			unit = s.Unit
		default:
			also = append(also, s.Unit)
		}
	}
	return cmp.Or(unit, placementv1alpha1.NamespaceUnit), also
}
