package placement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func record(name string, object types.UID, cluster string, state placementv1alpha1.CopyState, message string) *placementv1alpha1.Copy {
	return &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       placementv1alpha1.CopySpec{PhysicalCluster: cluster, Object: placementv1alpha1.ObjectReference{UID: object, Kind: "Deployment", Name: name}},
		Status:     placementv1alpha1.CopyStatus{State: state, Message: message},
	}
}

func TestProgressCountsTheCopiesOfEachTarget(t *testing.T) {
	objects := []Object{
		{UID: "1", Targets: placementv1alpha1.Targets{"east": {}, "west": {}}},
		{UID: "2", Targets: placementv1alpha1.Targets{"east": {}}},
		{UID: "3", Targets: placementv1alpha1.Targets{"east": {}, "west": {State: placementv1alpha1.TargetStateRemoving}}},
		{UID: "4", Targets: placementv1alpha1.Targets{"east": {State: placementv1alpha1.TargetObserved}}},
		{UID: "5", Targets: placementv1alpha1.Targets{"east": {}}},
	}
	copies := []*placementv1alpha1.Copy{
		record("a", "1", "east", placementv1alpha1.CopySynced, ""),
		record("c", "2", "east", placementv1alpha1.CopyFailed, "second"),
		record("b", "3", "east", placementv1alpha1.CopyFailed, "first"),
		record("b", "3", "west", placementv1alpha1.CopyRemoving, ""),
		record("old", "0", "east", placementv1alpha1.CopySynced, ""),
		record("d", "5", "east", placementv1alpha1.CopyPending, ""),
	}
	want := map[string]Progress{
		"east": {Wanted: 4, Synced: 1, Failed: 2, Problem: "Deployment b: first"},
		"west": {Wanted: 1, Removing: 1},
	}
	if diff := cmp.Diff(want, Progresses(objects, copies)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStatusFollowsProgress(t *testing.T) {
	start, now := time.Unix(100, 0), time.Unix(200, 0)
	decided := &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}}, SchedulerName: "atoll"}
	was := func(phase placementv1alpha1.TargetPhase) placementv1alpha1.PlacementStatus {
		return placementv1alpha1.PlacementStatus{Targets: []placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: phase, Since: metav1.NewTime(start)}}}
	}
	for _, c := range []struct {
		name     string
		old      placementv1alpha1.PlacementStatus
		progress map[string]Progress
		targets  []placementv1alpha1.TargetStatus
		settled  metav1.ConditionStatus
		reason   string
		awaits   string
	}{
		{
			"nothing made yet", placementv1alpha1.PlacementStatus{}, map[string]Progress{"east": {Wanted: 2}},
			[]placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: placementv1alpha1.TargetStarting, Since: metav1.NewTime(now), Reason: "CopiesPending"}},
			metav1.ConditionFalse, "CopiesPending", "",
		},
		{
			"a failure", was(placementv1alpha1.TargetStarting), map[string]Progress{"east": {Wanted: 2, Synced: 1, Failed: 1, Problem: "x"}},
			[]placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: placementv1alpha1.TargetStarting, Since: metav1.NewTime(start), Reason: "CopiesFailed"}},
			metav1.ConditionFalse, "CopiesFailed", "",
		},
		{
			"all in place", was(placementv1alpha1.TargetStarting), map[string]Progress{"east": {Wanted: 2, Synced: 2}},
			[]placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: placementv1alpha1.TargetActive, Since: metav1.NewTime(now)}},
			metav1.ConditionTrue, "Settled", "",
		},
		{
			"one more object after that", was(placementv1alpha1.TargetActive), map[string]Progress{"east": {Wanted: 3, Synced: 2}},
			[]placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: placementv1alpha1.TargetActive, Since: metav1.NewTime(start)}},
			metav1.ConditionFalse, "CopiesPending", "",
		},
		{
			"a target that is left", was(placementv1alpha1.TargetActive), map[string]Progress{"east": {Wanted: 1, Synced: 1}, "west": {Removing: 2}},
			[]placementv1alpha1.TargetStatus{
				{PhysicalCluster: "east", Phase: placementv1alpha1.TargetActive, Since: metav1.NewTime(start)},
				{PhysicalCluster: "west", Phase: placementv1alpha1.TargetRemoving, Since: metav1.NewTime(now), Reason: "CopiesRemoving"},
			},
			metav1.ConditionFalse, "CopiesRemoving", "",
		},
		{
			"all in place, and a claim waits for its volume elsewhere", was(placementv1alpha1.TargetActive), map[string]Progress{"east": {Wanted: 2, Synced: 2}},
			[]placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: placementv1alpha1.TargetActive, Since: metav1.NewTime(start)}},
			metav1.ConditionFalse, "VolumesPending", "its volume is not known yet",
		},
		{
			"a failure is said before that", was(placementv1alpha1.TargetStarting), map[string]Progress{"east": {Wanted: 2, Failed: 1, Problem: "x"}},
			[]placementv1alpha1.TargetStatus{{PhysicalCluster: "east", Phase: placementv1alpha1.TargetStarting, Since: metav1.NewTime(start), Reason: "CopiesFailed"}},
			metav1.ConditionFalse, "CopiesFailed", "its volume is not known yet",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &placementv1alpha1.Placement{Spec: placementv1alpha1.PlacementSpec{Decision: decided}, Status: c.old}
			got := Status(p, c.progress, c.awaits, now)
			if diff := cmp.Diff(c.targets, got.Targets); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			conditions := map[string]string{}
			for _, x := range got.Conditions {
				conditions[x.Type] = string(x.Status) + " " + x.Reason
			}
			want := map[string]string{"Scheduled": "True Decided", "Settled": string(c.settled) + " " + c.reason}
			if diff := cmp.Diff(want, conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			p.Status = got
			if diff := cmp.Diff(got, Status(p, c.progress, c.awaits, now.Add(time.Hour))); diff != "" { // since when included
				t.Errorf("the status changes with time alone:\n%s", diff)
			}
		})
	}
}

func TestTheStatusOfAnUndecidedPlacementIsLeftAlone(t *testing.T) {
	p := &placementv1alpha1.Placement{Status: placementv1alpha1.PlacementStatus{
		Rejected: []placementv1alpha1.RejectedPhysicalCluster{{PhysicalCluster: "east", Reason: "Cordoned", Message: "it is cordoned"}},
	}}
	if diff := cmp.Diff(p.Status, Status(p, nil, "", time.Unix(1, 0))); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
