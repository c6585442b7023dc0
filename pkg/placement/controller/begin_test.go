package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement/pace"
)

// Whoever begins after another one takes the room that is left, also if both have asked at the
// same time.
func TestAUnitGoesWhereRoomIsBesideThoseThatMove(t *testing.T) {
	f := newFixture(t, pinnedNamespace("west"), placementOf("east"))
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Move: placementv1alpha1.MoveAuto, Requests: cpu}
	begins := func(name string, to ...string) {
		f.moves.set(controller.Request{Cluster: "bank", Namespace: name, Name: "namespace"},
			&placementv1alpha1.Transition{From: []string{"south"}, To: to, Requests: cpu, Since: metav1.NewTime(start)})
	}
	begins("before", "west")
	var asked [][]placementv1alpha1.AssumedRequests
	f.atoll.PrependReactor("create", "placementreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked = append(asked, a.(clienttesting.CreateAction).GetObject().(*placementv1alpha1.PlacementReview).Spec.Assumed)
		begins("elsewhere", "north")
		if len(asked) == 1 {
			begins("meanwhile", "west")
		}
		return false, nil, nil
	})
	f.look()
	taken := func(name, cpu string) placementv1alpha1.AssumedRequests {
		return placementv1alpha1.AssumedRequests{PhysicalCluster: name, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	if diff := cmp.Diff([][]placementv1alpha1.AssumedRequests{{taken("west", "1")}, {taken("north", "1"), taken("west", "2")}}, asked); diff != "" {
		t.Errorf("what it supposed (-want +got):\n%s", diff)
	}
	p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil || p.Spec.Transition == nil || !cmp.Equal(p.Spec.Transition.Requests, cpu) {
		t.Errorf("the transition: %+v %v", p.Spec.Transition, err)
	}
}

// Where others begin to go again and again a unit waits for a moment, and keeps its place.
func TestAUnitDoesNotAskForEver(t *testing.T) {
	f := newFixture(t, pinnedNamespace("west"), placementOf("east"))
	f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Move: placementv1alpha1.MoveAuto}
	asked := 0
	f.atoll.PrependReactor("create", "placementreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		f.moves.set(controller.Request{Cluster: "bank", Namespace: fmt.Sprint(asked)}, &placementv1alpha1.Transition{To: []string{"west"}})
		return false, nil, nil
	})
	if result := f.look(); asked != maxAsked || result.RequeueAfter > againInterval || !f.moves.waits(web) {
		t.Errorf("asked %d times, again after %s, waiting %v", asked, result.RequeueAfter, f.moves.waits(web))
	}
}

// Of the units for which there is room one is reviewed at a time: it takes the room, and the others need no
// review. Nobody waits for one that was found to be kept.
func TestOneUnitIsReviewedAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		said  string
		waits bool
		asked int
	}{
		"nothing was said":  {waits: true},
		"it was queued":     {said: placementv1alpha1.ReasonQueued, waits: true},
		"something kept it": {said: "Blocked", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := placementOf("east")
			if c.said != "" {
				p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: c.said}}
			}
			f := newFixture(t, pinnedNamespace("west"), p)
			f.MaxMoves = 1
			f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Obstacles: []string{"a claim"}}
			if !f.reviews.TryAcquire(1) {
				t.Fatal("another unit is reviewed")
			}
			done := make(chan error, 1)
			go func() { _, err := f.reconcile(t.Context(), web); done <- err }()
			if c.waits {
				select {
				case err := <-done:
					t.Fatalf("it did not wait: %v", err)
				case <-time.After(50 * time.Millisecond):
				}
				f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{From: []string{"north"}})
				f.reviews.Release(1)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			asked := 0
			for _, a := range f.atoll.Actions() {
				if a.Matches("create", "placementreviews") {
					asked++
				}
			}
			if asked != c.asked {
				t.Errorf("it was reviewed %d times, want %d", asked, c.asked)
			}
			if c.waits && !f.moves.waits(web) {
				t.Error("it does not wait for room")
			}
		})
	}
}

// A unit that waits for room is not asked where it would go: of a drain of thousands most wait.
func TestWhoWaitsForRoomAsksForNoReview(t *testing.T) {
	f := newFixture(t, pinnedNamespace("west"), placementOf("east"))
	f.MaxMoves = 1
	f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{From: []string{"north"}})
	inLine(f, "first", start.Add(-time.Minute))
	inLine(f, "later", start.Add(time.Minute))
	if result := f.look(); result.RequeueAfter > queuedInterval || result.RequeueAfter == 0 {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	for _, a := range f.atoll.Actions() {
		if a.GetResource().Resource == "placementreviews" {
			t.Error("it asked where it goes")
		}
	}
	p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	said := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
	if want := "as many units move as may move at a time; at most 1 of the logical cluster wait for longer"; said == nil || said.Message != want {
		t.Errorf("%+v, want %q", said, want)
	}
	var names []string
	for _, w := range pace.NewLoad(pace.Bounds{Most: 9, Each: 9, Tenant: 9}).Next(&f.moves.queue) {
		names = append(names, w.Namespace)
	}
	if diff := cmp.Diff([]string{"first", "web", "later"}, names); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
}

// settled is what a look asks for when what it finds is not new.
func settled(f *fixture) (result controller.Result) {
	for range 3 {
		result = f.look()
		f.clock.SetTime(f.clock.Now().Add(settleDelay + writeInterval))
	}
	return result
}

// Of thousands that wait, or have nowhere to go, few are looked at a second: those that move are to come on.
func TestTheMoreWaitTheLaterEachIsLookedAtAgain(t *testing.T) {
	for ahead, want := range map[int]time.Duration{0: queuedInterval, 5: queuedInterval, 250: 4 * queuedInterval, 2500: 31 * queuedInterval} {
		f := newFixture(t, pinnedNamespace("west"), placementOf("east"))
		f.MaxMoves = 1
		f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{From: []string{"north"}})
		for i := range ahead {
			inLine(f, fmt.Sprint("before-", i), start.Add(-time.Minute))
		}
		if result := settled(f); result.RequeueAfter != want {
			t.Errorf("behind %d it is looked at after %s, want %s", ahead, result.RequeueAfter, want)
		}
	}
	for others, want := range map[int]time.Duration{0: blockedInterval, 99: blockedInterval, 4999: 500 * time.Second} {
		f := newFixture(t, pinnedNamespace("west"), placementOf("east"))
		f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Obstacles: []string{"a claim"}}
		for i := range others {
			f.moves.keep(controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)})
		}
		if result := settled(f); result.RequeueAfter != want {
			t.Errorf("beside %d that are kept it is looked at after %s, want %s", others, result.RequeueAfter, want)
		}
	}
}

// What a drain has no time left for is looked at then, however many wait: it says that it stays.
func TestWhoWaitsIsLookedAtAtTheDeadline(t *testing.T) {
	east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	east.Spec.Drain = fleetv1alpha1.Drain{Requested: true, Deadline: &metav1.Time{Time: start.Add(time.Minute)}}
	f := newFixture(t, pinnedNamespace("east"), placementOf("east"), east)
	f.MaxMoves = 1
	f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{Cause: placementv1alpha1.CauseDrain, From: []string{"north"}})
	for i := range 500 {
		inLine(f, fmt.Sprint("before-", i), start.Add(-time.Minute))
	}
	result := settled(f)
	if left := east.Spec.Drain.Deadline.Sub(f.clock.Now().Add(-settleDelay - writeInterval)); f.moving() == "" || result.RequeueAfter != left {
		t.Errorf("it says %q and is looked at after %s, want %s", f.moving(), result.RequeueAfter, left)
	}
}

// Since when a unit is not where it should be is known of as many as there are: of an edit that moves thousands, each would be
// new at each look, and none would ever move.
func TestNoUnitIsNewForEver(t *testing.T) {
	f := newFixture(t, pinnedNamespace("west"), placementOf("east"))
	f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Obstacles: []string{"a claim"}}
	if result := f.look(); result.RequeueAfter != settleDelay {
		t.Fatalf("at first it is looked at after %s, want %s", result.RequeueAfter, settleDelay)
	}
	for i := range 10_000 {
		key := controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)}
		f.unsatisfied.since(key, f.clock.Now())
		f.undivided.since(key, f.clock.Now())
	}
	f.clock.SetTime(f.clock.Now().Add(settleDelay))
	f.look()
	if p := f.placement(); !meta.IsStatusConditionFalse(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied) {
		t.Errorf("it is new still: %+v", p.Status.Conditions)
	}
}

func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	f := newFixture(t)
	f.unsatisfied.since(web, start)
	f.undivided.since(web, start)
	if _, err := f.reconcile(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if len(f.unsatisfied.times)+len(f.undivided.times) != 0 {
		t.Errorf("%v %v", f.unsatisfied.times, f.undivided.times)
	}
}
