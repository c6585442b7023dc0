package syncer

import (
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhatIsNotDoneIsTriedAgainAndWhatIsOverIsForgotten(t *testing.T) {
	copied := func(s placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		return &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: s}}
	}
	here := thing(targeted(`{"east":{}}`))
	for name, c := range map[string]struct {
		in   Input
		want Outcome
	}{
		"a failure":                      {Input{Logical: here, Failure: &Failure{}}, Outcome{Retry: true}},
		"a failure of what is gone":      {Input{Failure: &Failure{}}, Outcome{Retry: true}},
		"Pending":                        {Input{Logical: here, Copy: copied(placementv1alpha1.CopyPending)}, Outcome{Retry: true}},
		"Failed":                         {Input{Logical: here, Copy: copied(placementv1alpha1.CopyFailed)}, Outcome{Retry: true}},
		"Removing":                       {Input{Copy: copied(placementv1alpha1.CopyRemoving)}, Outcome{Retry: true}},
		"Synced":                         {Input{Logical: here, Copy: copied(placementv1alpha1.CopySynced)}, Outcome{}},
		"Removed, until the Copy goes":   {Input{Copy: copied(placementv1alpha1.CopyRemoved)}, Outcome{}},
		"gone":                           {Input{}, Outcome{Forget: true}},
		"a mirror":                       {Input{Target: "east", Logical: thing(targeted(`{"east":{"state":"Observed","uid":"p"}}`))}, Outcome{Forget: true}},
		"a mirror of another target's":   {Input{Target: "west", Logical: thing(targeted(`{"east":{"state":"Observed","uid":"p"}}`))}, Outcome{}},
		"an object that has no Copy yet": {Input{Target: "east", Logical: here}, Outcome{}},
	} {
		if got := OutcomeOf(c.in); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAnApplyOfSomethingNewStartsTheCountOfRevertsAnew(t *testing.T) {
	now := time.Unix(1000, 0)
	r := Reverts{}.After(Action{Drift: true}, now).After(Action{Drift: true}, now)
	if r.Count != 2 || !r.Last.Equal(now) {
		t.Errorf("after two reverts it counts %+v", r)
	}
	if r = r.After(Action{}, now); r != (Reverts{}) {
		t.Errorf("after a change above it counts %+v", r)
	}
}
