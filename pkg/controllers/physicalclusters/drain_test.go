package physicalclusters

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
)

func TestWhetherAPhysicalClusterIsDrained(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	later, earlier := metav1.NewTime(noon.Add(time.Second)), metav1.NewTime(noon.Add(-time.Hour))
	seen := func(at metav1.Time, objects int32) *fleetv1alpha1.DrainEvidence {
		e := &fleetv1alpha1.DrainEvidence{At: at, By: "host", Objects: objects}
		if objects > 0 {
			e.Counts = []fleetv1alpha1.ResourceCount{{Resource: "pods", Count: objects}}
		}
		return e
	}
	blocker := fleetv1alpha1.DrainBlocker{LogicalCluster: "shop", Namespace: "web", Message: "because"}
	for _, c := range []struct {
		name   string
		ends   time.Duration // the deadline, after noon
		drain  fleetv1alpha1.DrainStatus
		asked  bool
		silent bool
		before string
		want   string
	}{
		{"all of it moves", 0, fleetv1alpha1.DrainStatus{Namespaces: 3, Moving: 3, Copies: 9}, false, false, "", "False Draining: 3 namespaces are on it, 3 of them move, 0 wait for their turn, 0 cannot"},
		{"some of it does not arrive", 0, fleetv1alpha1.DrainStatus{Namespaces: 3, Moving: 2, Stuck: 1, Queued: 1}, false, false, "", "False Draining: 3 namespaces are on it, 2 of them move, 1 wait for their turn, 0 cannot; 1 of those that move have not become available where they go for 5m0s, and as many as may move at a time stop the drain"},
		{"some of it is blocked", 0, fleetv1alpha1.DrainStatus{Namespaces: 3, Moving: 1, Queued: 1, Blocked: 1, Blockers: []fleetv1alpha1.DrainBlocker{blocker}}, false, false, "", "False Draining: 3 namespaces are on it, 1 of them move, 1 wait for their turn, 1 cannot"},
		{"all that is left is blocked", 0, fleetv1alpha1.DrainStatus{Namespaces: 1, Blocked: 1, Blockers: []fleetv1alpha1.DrainBlocker{blocker}}, false, false, "", "False Blocked: 1 namespaces are on it and cannot move; the first is web in logical cluster shop: because"},
		{"more is blocked than is listed", 0, fleetv1alpha1.DrainStatus{Namespaces: 30, Blocked: 30, Blockers: []fleetv1alpha1.DrainBlocker{blocker}}, false, false, "", "False Blocked: 30 namespaces are on it and cannot move; the first is web in logical cluster shop: because"},
		{"all that is left waits for its turn", 0, fleetv1alpha1.DrainStatus{Namespaces: 2, Queued: 2}, false, false, "", "False Draining: 2 namespaces are on it, 0 of them move, 2 wait for their turn, 0 cannot"},
		{"copies are left", 0, fleetv1alpha1.DrainStatus{Copies: 2}, false, false, "", "False Removing: no namespace is placed on it; 2 copies are not known to be gone"},
		{"the informers have nothing, the server has not said so", 0, fleetv1alpha1.DrainStatus{}, false, false, "", "False Removing: no namespace is placed on it; 0 copies are not known to be gone"},
		{"nobody can look", 0, fleetv1alpha1.DrainStatus{Seen: seen(later, 0)}, true, true, reasonVerifying, "Unknown Silent: nothing is placed on it; its syncer cannot say whether something is left"},
		{"nobody has looked", 0, fleetv1alpha1.DrainStatus{}, true, false, "", "Unknown Verifying: nothing is placed on it; its syncer is about to look whether something is left"},
		{"a look from while it drained is none", 0, fleetv1alpha1.DrainStatus{Seen: seen(later, 0)}, true, false, "Removing", "Unknown Verifying: nothing is placed on it; its syncer is about to look whether something is left"},
		{"something is left", 0, fleetv1alpha1.DrainStatus{Seen: seen(later, 4)}, true, false, reasonVerifying, "False Left: nothing is placed on it, but 4 objects with our mark are left (4 pods); see the Orphans in root"},
		{"nothing is left", 0, fleetv1alpha1.DrainStatus{Seen: seen(later, 0)}, true, false, reasonVerifying, "True Drained: nothing of this control plane is left on it, as host found"},
		{"nothing is left, by a clock that is behind", 0, fleetv1alpha1.DrainStatus{Seen: seen(earlier, 0)}, true, false, reasonVerifying, "True Drained: nothing of this control plane is left on it, as host found"},
		{"it stays drained", 0, fleetv1alpha1.DrainStatus{Seen: seen(later, 0)}, true, false, reasonDrained, "True Drained: nothing of this control plane is left on it, as host found"},
		{"the deadline lies ahead", time.Second, fleetv1alpha1.DrainStatus{Namespaces: 3, Moving: 3}, false, false, "", "False Draining: 3 namespaces are on it, 3 of them move, 0 wait for their turn, 0 cannot"},
		{"the deadline has passed", -time.Second, fleetv1alpha1.DrainStatus{Namespaces: 3, Moving: 1, Ended: 5}, false, false, "", "False DeadlineExceeded: the deadline 2026-11-22T11:59:59Z has passed: 5 namespaces have left, 1 move, and 2 stay; a later spec.drain.deadline moves these, too"},
		{"the deadline has passed, and what cannot move stays, too", -time.Second, fleetv1alpha1.DrainStatus{Namespaces: 1, Blocked: 1, Blockers: []fleetv1alpha1.DrainBlocker{blocker}}, false, false, "", "False DeadlineExceeded: the deadline 2026-11-22T11:59:59Z has passed: 0 namespaces have left, 0 move, and 1 stay; a later spec.drain.deadline moves these, too"},
		{"the deadline has passed, and the last one is on its way", -time.Second, fleetv1alpha1.DrainStatus{Namespaces: 1, Moving: 1}, false, false, "", "False Draining: 1 namespaces are on it, 1 of them move, 0 wait for their turn, 0 cannot"},
		{"the deadline has passed, and nothing is left", -time.Second, fleetv1alpha1.DrainStatus{Seen: seen(later, 0)}, true, false, reasonVerifying, "True Drained: nothing of this control plane is left on it, as host found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pc := &fleetv1alpha1.PhysicalCluster{Status: fleetv1alpha1.PhysicalClusterStatus{Drain: &c.drain}}
			if !c.silent {
				pc.Status.Conditions = append(pc.Status.Conditions, metav1.Condition{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue})
			}
			if c.before != "" {
				pc.Status.Conditions = append(pc.Status.Conditions, metav1.Condition{Type: fleetv1alpha1.ConditionDrained, Reason: c.before, LastTransitionTime: noon})
			}
			if pc.Spec.Drain.Requested = true; c.ends != 0 {
				pc.Spec.Drain.Deadline = &metav1.Time{Time: noon.Add(c.ends)}
			}
			got := drained(pc, c.asked, noon.Time)
			if diff := cmp.Diff(c.want, fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Physical namespaces stay for what a restored backup does not know: the way out is an order of an admin.
func TestADrainThatWaitsForOrphansSaysSo(t *testing.T) {
	pc := &fleetv1alpha1.PhysicalCluster{Status: fleetv1alpha1.PhysicalClusterStatus{
		Drain: &fleetv1alpha1.DrainStatus{Copies: 1}, Orphans: fleetv1alpha1.OrphanCounts{Found: 2},
	}}
	pc.Spec.Drain.Requested = true
	const want = "Removing: no namespace is placed on it; 1 copies are not known to be gone; 2 objects with our mark belong to nothing, and physical namespaces that they are in stay: see the Orphans in root"
	if got := drained(pc, false, noon); got.Reason+": "+got.Message != want {
		t.Errorf("got  %s: %s\nwant %s", got.Reason, got.Message, want)
	}
}

// A syncer writes what it found into the status that it read before it looked. What the status has when there
// begins to be nothing is from before, whatever its clock said.
func TestALookFromBeforeThereWasNothingIsNoEvidence(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	c := &Controller{Config: Config{
		Clock: clocktesting.NewFakePassiveClock(noon), Client: fake.NewClientset(),
		Placements: controller.NewInformer("none", &placementv1alpha1.Placement{}, controller.ListWatch{}, controller.InformerOptions[*placementv1alpha1.Placement]{}),
		Copies: controller.NewInformer("none", &placementv1alpha1.Copy{}, controller.ListWatch{}, controller.InformerOptions[*placementv1alpha1.Copy]{
			Indexers: copyindex.Indexers(),
		}),
	}}
	pc := works()
	pc.Spec.Drain.Requested = true
	found := func(objects int32) *fleetv1alpha1.DrainEvidence {
		return &fleetv1alpha1.DrainEvidence{At: metav1.NewTime(noon.Add(time.Hour)), By: "host", Objects: objects}
	}
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() { pc.Status.Drain = &fleetv1alpha1.DrainStatus{Seen: found(0)} }, "Unknown Verifying"},
		{func() {}, "Unknown Verifying"},
		{func() { pc.Status.Drain.Seen = found(2) }, "False Left"},
		{func() { pc.Status.Drain.Seen = found(0) }, "True Drained"},
		{func() { setReady(pc, metav1.ConditionFalse) }, "Unknown Silent"},
		{func() { setReady(pc, metav1.ConditionTrue) }, "Unknown Verifying"},
		{func() { pc.Status.Drain.Seen = found(0) }, "True Drained"},
	} {
		step.do()
		if err := c.drain(t.Context(), pc); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, conditions(pc)["Drained"]); diff != "" {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
	}
}

func setReady(pc *fleetv1alpha1.PhysicalCluster, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&pc.Status.Conditions, metav1.Condition{Type: fleetv1alpha1.ConditionReady, Status: status, Reason: "Because"})
}

func TestADrainCountsWhatIsPlacedThereAndWhatLeaves(t *testing.T) {
	placed := func(namespace, on string, transition *placementv1alpha1.Transition, conditions ...metav1.Condition) *placementv1alpha1.Placement {
		p := &placementv1alpha1.Placement{}
		p.Namespace = namespace
		p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: on}}}
		p.Spec.Transition = transition
		p.Status.Conditions = conditions
		return p
	}
	blocked := metav1.Condition{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: "Blocked", Message: "because"}
	queued := metav1.Condition{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: placementv1alpha1.ReasonQueued}
	leaves := &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionRemoving, From: []string{"east"}, To: []string{"west"}}
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	starts := func(ago time.Duration, cause placementv1alpha1.TransitionCause) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting, Cause: cause, Started: metav1.NewTime(noon.Add(-ago)), From: []string{"east"}, To: []string{"west"}}
	}
	got := drainOf("east", []*placementv1alpha1.Placement{
		placed("here", "east", nil), placed("leaves", "west", leaves), placed("blocked", "east", nil, blocked), placed("elsewhere", "west", nil, blocked), placed("queued", "east", nil, queued), {},
		placed("begins", "west", starts(time.Minute, placementv1alpha1.CauseDrain)), placed("stuck", "west", starts(time.Hour, placementv1alpha1.CauseDrain)),
	}, noon)
	want := &fleetv1alpha1.DrainStatus{Namespaces: 6, Moving: 3, Stuck: 1, Queued: 1, Blocked: 1, Blockers: []fleetv1alpha1.DrainBlocker{{Namespace: "blocked", Reason: "Blocked", Message: "because"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last := metav1.Condition{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: placementv1alpha1.ReasonLeavesLast, Message: "after all else"}
	addons, stays := placed("addons", "east", nil, last), placed("blocked", "east", nil, blocked)
	isStuck, isLast := fleetv1alpha1.DrainBlocker{Namespace: "blocked", Reason: "Blocked", Message: "because"}, fleetv1alpha1.DrainBlocker{Namespace: "addons", Reason: placementv1alpha1.ReasonLeavesLast, Message: "after all else"}
	for name, test := range map[string]struct {
		placements []*placementv1alpha1.Placement
		want       fleetv1alpha1.DrainStatus
	}{
		"what leaves last waits for what moves":                  {[]*placementv1alpha1.Placement{addons, stays, placed("leaves", "west", leaves)}, fleetv1alpha1.DrainStatus{Namespaces: 3, Moving: 1, Queued: 1, Blocked: 1, Blockers: []fleetv1alpha1.DrainBlocker{isStuck}}},
		"what leaves last waits for what is about to move":       {[]*placementv1alpha1.Placement{addons, stays, placed("queued", "east", nil, queued)}, fleetv1alpha1.DrainStatus{Namespaces: 3, Queued: 2, Blocked: 1, Blockers: []fleetv1alpha1.DrainBlocker{isStuck}}},
		"what leaves last is blocked as all else is":             {[]*placementv1alpha1.Placement{addons, stays}, fleetv1alpha1.DrainStatus{Namespaces: 2, Blocked: 2, Blockers: []fleetv1alpha1.DrainBlocker{isStuck, isLast}}},
		"what leaves last is about to, as there is nothing else": {[]*placementv1alpha1.Placement{addons}, fleetv1alpha1.DrainStatus{Namespaces: 1, Queued: 1}},
	} {
		if diff := cmp.Diff(&test.want, drainOf("east", test.placements, noon)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
