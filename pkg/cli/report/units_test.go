package report

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestUnitsAreAskedAboutInTheOrderInWhichTheyWait(t *testing.T) {
	waits := func(status metav1.ConditionStatus, since int64) *placementv1alpha1.Placement {
		p := &placementv1alpha1.Placement{}
		p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionMoving, Status: status, LastTransitionTime: metav1.Unix(since, 0)}}
		return p
	}
	units := []Unit{
		NewUnit("shop", "b", "namespace", nil),
		NewUnit("shop", "moves", "namespace", waits(metav1.ConditionTrue, 1)),
		NewUnit("shop", "second", "namespace", waits(metav1.ConditionFalse, 2)),
		NewUnit("shop", "b", "front", nil),
		NewUnit("bank", "z", "namespace", nil),
		NewUnit("shop", "first", "namespace", waits(metav1.ConditionFalse, 1)),
		NewUnit("shop", "also", "namespace", waits(metav1.ConditionFalse, 2)),
	}
	slices.SortFunc(units, Unit.Compare)
	var got []string
	for _, u := range units {
		got = append(got, u.LogicalCluster+" "+u.title())
	}
	want := []string{"shop first", "shop also", "shop second", "bank z", "shop b/front", "shop b", "shop moves"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if first := (Unit{Waits: time.Unix(1, 0)}); first.Compare(Unit{}) >= 0 || (Unit{}).Compare(first) <= 0 {
		t.Error("who waits does not come first")
	}
}

func TestWhatMovesTakesRoomWhereItGoes(t *testing.T) {
	requests := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	for _, units := range []bool{true, false} {
		taken := NewTaken(units)
		for _, o := range []struct {
			change   Change
			from, to string
			cpu      string
		}{
			{Moves, "east", "west", "1"},
			{Moves, "east,north", "north,west", "2"},
			{Placed, "", "north", "4"},
			{Unchanged, "west", "west", "8"},
			{Pending, "east", "", "16"},
			{Blocked, "east", "west", "32"},
		} {
			taken.Add(Outcome{Change: o.change, From: split(o.from), To: split(o.to)}, requests(o.cpu))
		}
		want := []placementv1alpha1.AssumedRequests{
			{PhysicalCluster: "north", Units: 1, Requests: requests("4")}, {PhysicalCluster: "west", Units: 2, Requests: requests("3")},
		}
		if !units {
			want[0].Units, want[1].Units = 0, 0
		}
		if diff := cmp.Diff(want, taken.Assumed()); diff != "" {
			t.Errorf("units counted: %v (-want +got):\n%s", units, diff)
		}
	}
}

func TestAUnitOfANamespaceIsNamedWithIt(t *testing.T) {
	s := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, Message: "no physical cluster fits"}
	front := Compare(Unit{LogicalCluster: "shop", Namespace: "web", Name: "front"}, s)
	rest := Compare(Unit{LogicalCluster: "shop", Namespace: "web", Name: placementv1alpha1.NamespaceUnit}, s)
	wantRows(t, WhatIf([]Outcome{rest, front}, false),
		"web/front|Pending|east|<none>|no physical cluster fits",
		"web|Pending|east|<none>|no physical cluster fits")
	if got, want := Count([]Outcome{rest, front}), "2 units: 0 would move, 2 would have nowhere to go, 0 stay where they are"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
