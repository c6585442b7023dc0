package stamp

import (
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestThePartOfOnePhysicalClusterIsThatOfTheUnit(t *testing.T) {
	t.Parallel()
	placements := []*placementv1alpha1.Placement{{}}
	for _, phase := range []placementv1alpha1.TransitionPhase{
		"", placementv1alpha1.TransitionStarting, placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionRemoving,
		placementv1alpha1.TransitionHandingOver, placementv1alpha1.TransitionClearing,
	} {
		placements = append(placements, placementIn(phase))
	}
	for _, p := range placements {
		unit := UnitOf(p)
		for _, name := range []string{"west", "east", "north"} {
			want, on := unit[name]
			if got, ok := PartOn(p, name); got != want || ok != on {
				t.Errorf("%s is %q (%v) to %+v, want %q (%v)", name, got, ok, p.Spec, want, on)
			}
		}
	}
}
