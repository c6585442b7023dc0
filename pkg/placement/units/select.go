package units

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxSelectors is how many policies of one namespace select objects: as many as are read
// for a decision.
const maxSelectors = 32

// Selector is what one policy selects.
type Selector struct {
	// Unit is the name of the policy, and of the Placement.
	Unit   string
	kinds  []placementv1alpha1.ObjectKind
	names  []string
	labels labels.Selector
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
		s := Selector{Unit: p.Name, kinds: o.Kinds, names: o.Names, labels: labels.Everything()}
		if o.LabelSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(o.LabelSelector)
			if err != nil {
				selector = labels.Nothing()
			}
			s.labels = selector
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Selector) int { return cmp.Compare(a.Unit, b.Unit) })
	return out[:min(len(out), maxSelectors)]
}

func (s Selector) selects(kind workload.Kind, obj metav1.Object) bool {
	named := placementv1alpha1.ObjectKind{Group: kind.Group, Kind: kind.Kind}
	return (len(s.kinds) == 0 || slices.Contains(s.kinds, named)) &&
		(len(s.names) == 0 || slices.Contains(s.names, obj.GetName())) &&
		s.labels.Matches(labels.Set(obj.GetLabels()))
}

// Selected is the unit of an object that makes pods: that of the first policy that selects
// it, else the namespace. also are the other policies that do.
func Selected(selectors []Selector, kind workload.Kind, obj metav1.Object) (unit string, also []string) {
	for _, s := range selectors {
		switch {
		case !s.selects(kind, obj):
		case unit == "":
			unit = s.Unit
		default:
			also = append(also, s.Unit)
		}
	}
	return cmp.Or(unit, placementv1alpha1.NamespaceUnit), also
}
