package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// placementIn is one that goes from east to west.
func placementIn(phase placementv1alpha1.TransitionPhase) *placementv1alpha1.Placement {
	p := &placementv1alpha1.Placement{}
	p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "west"}}}
	if phase != "" {
		p.Spec.Transition = &placementv1alpha1.Transition{Phase: phase, To: []string{"west"}, From: []string{"east"}}
	}
	return p
}

func TestAnObjectGoesThroughTheMoveOfItsUnit(t *testing.T) {
	const (
		starting = placementv1alpha1.TransitionStarting
		draining = placementv1alpha1.TransitionDraining
		removing = placementv1alpha1.TransitionRemoving
	)
	deployment, service, statefulSet, job := kindOf("apps", "Deployment"), kindOf("", "Service"), kindOf("apps", "StatefulSet"), kindOf("batch", "Job")
	for _, c := range []struct {
		name    string
		kind    workload.Kind
		runs    workload.Runs
		phase   placementv1alpha1.TransitionPhase
		current string
		want    string
	}{
		{"starts beside the old one", deployment, "", starting, `{"east":{}}`, `{"east":{},"west":{}}`},
		{"a new one serves where the traffic is, too", deployment, "", starting, ``, `{"east":{},"west":{}}`},
		{"a new one does not begin where it would go soon", deployment, "", draining, ``, `{"west":{}}`},
		{"goes where it is not needed", deployment, "", removing, `{"east":{},"west":{}}`, `{"east":{"state":"Removing"},"west":{}}`},
		{"is there", deployment, "", "", `{"west":{}}`, `{"west":{}}`},
		{"addresses are not published before it is ready", service, "", starting, `{"east":{}}`, `{"east":{},"west":{"state":"Starting"}}`},
		{"addresses are withdrawn before it goes", service, "", draining, `{"east":{},"west":{"state":"Starting"}}`, `{"east":{"state":"Draining"},"west":{}}`},
		{"then it goes", service, "", removing, `{"east":{"state":"Draining"},"west":{}}`, `{"east":{"state":"Removing"},"west":{}}`},
		{"abandoned: addresses come back", service, "", starting, `{"east":{"state":"Draining"},"west":{}}`, `{"east":{},"west":{"state":"Starting"}}`},

		{"what runs once waits", statefulSet, workload.RunsOnce, starting, `{"east":{}}`, `{"east":{},"west":{"state":"Waiting"}}`},
		{"and is stopped", statefulSet, workload.RunsOnce, removing, `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`},
		{"and waits for the end", statefulSet, workload.RunsOnce, removing, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`},
		{"and starts", statefulSet, workload.RunsOnce, removing, `{"west":{"state":"Waiting"}}`, `{"west":{}}`},
		{"also if the move has ended", statefulSet, workload.RunsOnce, "", `{"west":{"state":"Waiting"}}`, `{"west":{}}`},
		{"a new one that runs once begins where the unit goes", statefulSet, workload.RunsOnce, starting, ``, `{"west":{}}`},

		{"what ends by itself is left to it", job, workload.RunsToEnd, removing, `{"east":{}}`, `{"east":{},"west":{"state":"Finished"}}`},
		{"what has ended goes, and does not begin again", job, workload.RunsEnded, removing, `{"east":{},"west":{"state":"Finished"}}`, `{"east":{"state":"Removing"},"west":{"state":"Finished"}}`},
		{"what has ended stays ended", job, "", "", `{"west":{"state":"Finished"}}`, `{"west":{"state":"Finished"}}`},
		{"a new job begins where the unit goes", job, workload.RunsToEnd, starting, ``, `{"west":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Targets(c.kind, "shop", object(c.current), Source{Unit: UnitOf(placementIn(c.phase)), Runs: c.runs})
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			o := object(got.String())
			if again := Targets(c.kind, "shop", o, Source{Unit: UnitOf(placementIn(c.phase)), Runs: c.runs}); !Equal(got, again) {
				t.Errorf("stamped again: %s", again)
			}
		})
	}
}

// A place that a unit was on its way to, and that it does not go to any more, may not be
// ready; the one that had the traffic keeps it.
func TestAnAbandonedPlaceReceivesNoTraffic(t *testing.T) {
	p := placementIn(placementv1alpha1.TransitionStarting)
	p.Spec.Transition.To, p.Spec.Transition.From, p.Spec.Transition.Withdrawn = []string{"north"}, []string{"east", "west"}, []string{"east"}
	p.Spec.Decision.PhysicalClusters[0].Name = "north"
	for _, c := range []struct {
		kind          workload.Kind
		current, want string
	}{
		{kindOf("", "Service"), `{"east":{"state":"Starting"},"west":{}}`, `{"east":{"state":"Draining"},"north":{"state":"Starting"},"west":{}}`},
		{kindOf("apps", "Deployment"), `{"east":{},"west":{}}`, `{"east":{},"north":{},"west":{}}`},
		{kindOf("apps", "Deployment"), `{"west":{}}`, `{"north":{},"west":{}}`},
	} {
		got := Targets(c.kind, "shop", object(c.current), Source{Unit: UnitOf(p)})
		if diff := cmp.Diff(c.want, got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.kind.Kind, diff)
		}
	}
}

func TestAMoveBackUndoesWhatHasNotBegun(t *testing.T) {
	back := &placementv1alpha1.Placement{}
	back.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}}}
	back.Spec.Transition = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionRemoving, From: []string{"west"}}
	for _, c := range []struct {
		name    string
		kind    workload.Kind
		runs    workload.Runs
		current string
		want    string
	}{
		{"what had started is removed", kindOf("apps", "Deployment"), "", `{"east":{},"west":{}}`, `{"east":{},"west":{"state":"Removing"}}`},
		{"what only waited has nothing to remove", kindOf("apps", "StatefulSet"), workload.RunsOnce, `{"east":{},"west":{"state":"Waiting"}}`, `{"east":{}}`},
		{"what is being removed is begun again afterwards", kindOf("apps", "StatefulSet"), workload.RunsOnce, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`, `{"east":{"state":"Removing"}}`},
		{"and then begins", kindOf("apps", "StatefulSet"), workload.RunsOnce, ``, `{"east":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Targets(c.kind, "shop", object(c.current), Source{Unit: UnitOf(back), Runs: c.runs}).String()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatRulesHoldsAtBothEndsOfAMove(t *testing.T) {
	unit := UnitOf(placementIn(placementv1alpha1.TransitionStarting))
	if got := Targets(kindOf("", "ResourceQuota"), "shop", object(`{"east":{}}`), Source{Unit: unit}).String(); got != `{"east":{},"west":{}}` {
		t.Error(got)
	}
	unit = UnitOf(placementIn(placementv1alpha1.TransitionRemoving))
	if got := Targets(kindOf("", "ResourceQuota"), "shop", object(`{"east":{},"west":{}}`), Source{Unit: unit}).String(); got != `{"east":{"state":"Removing"},"west":{}}` {
		t.Error(got)
	}
}

func TestWhatAnObjectRefersToIsThereBeforeIt(t *testing.T) {
	got := Targets(kindOf("", "Secret"), "shop", object(`{"east":{}}`), Source{Referrers: parse(t, `{"east":{},"west":{"state":"Waiting"}}`)}).String()
	if got != `{"east":{},"west":{}}` {
		t.Error(got)
	}
}
