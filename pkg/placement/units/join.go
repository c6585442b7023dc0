package units

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Waits says that an object that runs has to wait before it comes into units: one that it
// is not in yet has stopped to look whether what it leaves is replaced. placements are
// those of the namespace. It keeps what it has, and comes in when that transition is over.
//
//	the object               the unit's transition  then
//	has no copy              any                    comes in
//	was stamped by the unit  any                    is in
//	any other                none, Starting         comes in: its replacement is waited for
//	any other                Draining, Removing     waits
func Waits(obj metav1.Object, names []string, placements ...*placementv1alpha1.Placement) bool {
	if stamp.IsIn(obj, names) || len(stamp.Kept(obj)) == 0 {
		return false
	}
	in := stamp.Units(obj)
	return slices.ContainsFunc(placements, func(p *placementv1alpha1.Placement) bool {
		t := p.Spec.Transition
		return t != nil && t.Phase != placementv1alpha1.TransitionStarting && slices.Contains(names, p.Name) && !slices.Contains(in, p.Name)
	})
}
