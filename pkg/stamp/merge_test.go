package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestWhatBelongsToSeveralUnitsStaysWhereOneStays(t *testing.T) {
	for _, c := range []struct {
		name  string
		units []Unit
		want  Unit
	}{
		{"none is decided", []Unit{nil, nil}, nil},
		{"one is", []Unit{nil, {"east": PartStays}}, Unit{"east": PartStays}},
		{"each is elsewhere", []Unit{{"east": PartStays}, {"west": PartStays}}, Unit{"east": PartStays, "west": PartStays}},
		{"one leaves where another one stays", []Unit{{"east": PartRemoves, "west": PartStays}, {"east": PartStays}}, Unit{"east": PartStays, "west": PartStays}},
		{"one comes where another one still serves", []Unit{{"east": PartLeaves}, {"east": PartArrives}}, Unit{"east": PartLeaves}},
		{"one comes where another one is removed", []Unit{{"east": PartRemoves}, {"east": PartArrives}}, Unit{"east": PartArrives}},
		{"one comes where what came from elsewhere serves", []Unit{{"east": PartArrives}, {"east": PartEmpties}}, Unit{"east": PartLeaves}},
		{"both leave", []Unit{{"east": PartDrains}, {"east": PartRemoves}}, Unit{"east": PartDrains}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Merge(c.units...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func drawUnit(t *rapid.T, label string) Unit {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}),
		rapid.SampledFrom([]Part{PartStays, PartArrives, PartLeaves, PartDrains, PartEmpties, PartRemoves}), 0, 2).Draw(t, label)
}

func TestUnitsAreMergedInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y, z := drawUnit(t, "x"), drawUnit(t, "y"), drawUnit(t, "z")
		want := Merge(x, y, z)
		for _, got := range []Unit{Merge(z, y, x), Merge(y, z, x), Merge(Merge(x, y), z), Merge(x, Merge(y, z)), Merge(x, y, z, x)} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// An object that comes from a unit elsewhere goes through these stamps, one after the
// other; its new unit is in the west.
func TestAnObjectThatChangesItsUnitKeepsWhatItHasUntilItIsReplaced(t *testing.T) {
	unit := func(phase placementv1alpha1.TransitionPhase) Unit {
		p := placementIn(phase)
		if phase != "" {
			p.Spec.Transition.To, p.Spec.Transition.Cause = nil, placementv1alpha1.CauseLeftover
		}
		return UnitOf(p)
	}
	for _, c := range []struct {
		name string
		kind workload.Kind
		runs workload.Runs
		want []string
	}{
		{"runs anywhere", kindOf("apps", "Deployment"), "", []string{`{"east":{},"west":{}}`, `{"east":{},"west":{}}`, `{"east":{},"west":{}}`, `{"east":{"state":"Removing"},"west":{}}`}},
		{"has addresses", kindOf("", "Service"), "", []string{`{"east":{},"west":{"state":"Starting"}}`, `{"east":{},"west":{"state":"Starting"}}`, `{"east":{"state":"Draining"},"west":{}}`, `{"east":{"state":"Removing"},"west":{}}`}},
		{"runs once", kindOf("apps", "StatefulSet"), workload.RunsOnce, []string{`{"east":{},"west":{"state":"Waiting"}}`, `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`}},
		{"runs to its end", kindOf("batch", "Job"), workload.RunsToEnd, []string{`{"east":{},"west":{"state":"Finished"}}`, `{"east":{},"west":{"state":"Finished"}}`, `{"east":{},"west":{"state":"Finished"}}`, `{"east":{},"west":{"state":"Finished"}}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := object(`{"east":{}}`)
			for i, phase := range []placementv1alpha1.TransitionPhase{"", placementv1alpha1.TransitionStarting, placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionRemoving} {
				got := Targets(c.kind, "shop", o, Source{Unit: unit(phase), Runs: c.runs})
				if diff := cmp.Diff(c.want[i], got.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", phase, diff)
				}
				o = object(got.String())
			}
		})
	}
}

func TestNothingElseComesWhereAnObjectOfAnotherUnitIsLeft(t *testing.T) {
	p := placementIn(placementv1alpha1.TransitionStarting)
	p.Spec.Transition.To, p.Spec.Transition.Cause = nil, placementv1alpha1.CauseLeftover
	for _, current := range []string{"", `{"west":{}}`} {
		if got := Targets(kindOf("apps", "Deployment"), "shop", object(current), Source{Unit: UnitOf(p)}).String(); got != `{"west":{}}` {
			t.Errorf("%q became %s", current, got)
		}
	}
}

func TestWhatWaitsWhereItsUnitIsNotWaitsNoMore(t *testing.T) {
	unit := Unit{"north": PartStays}
	got := Targets(kindOf("apps", "StatefulSet"), "shop", object(`{"east":{},"west":{"state":"Waiting"}}`), Source{Unit: unit, Runs: workload.RunsOnce}).String()
	if want := `{"east":{},"north":{"state":"Waiting"}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
