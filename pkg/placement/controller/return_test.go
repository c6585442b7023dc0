package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// readyWest is a physical cluster that is ready since the fixture's clock began.
func readyWest() *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "west", Labels: map[string]string{"region": "west"}, Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
	return pc
}

// westFirst lets what is on east return to west.
func westFirst() *placementv1alpha1.PlacementPolicy {
	policy := &placementv1alpha1.PlacementPolicy{ObjectMeta: owned("west-first", "pp-1")}
	policy.Namespace = "web"
	policy.Spec.Preferences = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "west"}}}
	policy.Spec.Move = &placementv1alpha1.MoveRules{Return: placementv1alpha1.ReturnWhenPreferred, ReturnAfterSeconds: new(int32(60))}
	return policy
}

func TestAUnitReturnsToWhatIsPreferred(t *testing.T) {
	west := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 7}}
	stays := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"east"}}
	blocked := west
	blocked.Obstacles = []string{"a claim"}
	never := westFirst()
	never.Spec.Move.Return = ""
	scheduled := westFirst()
	scheduled.Spec.SchedulerName = "cost"
	since := metav1.NewTime(start.Add(placement.Silence))
	waits := &placementv1alpha1.Awaited{PhysicalClusters: []string{"west"}, Since: since}
	late := placement.Silence + time.Minute
	stored := func(a *placementv1alpha1.Awaited, r *placementv1alpha1.Returned) *placementv1alpha1.Placement {
		p := placementOf("east")
		p.Status.Awaited, p.Spec.Returned = a, r
		return p
	}
	const waiting = "WaitsToReturn: policies prefer west: it returns once that was ready for it for 1m0s since "
	again := &placementv1alpha1.Returned{At: metav1.NewTime(start.Add(-time.Hour)), Times: 1}
	for name, c := range map[string]struct {
		policy  *placementv1alpha1.PlacementPolicy
		cluster *fleetv1alpha1.PhysicalCluster
		pinned  bool
		stored  *placementv1alpha1.Placement
		review  placementv1alpha1.PlacementReviewStatus
		coming  bool
		at      time.Duration
		want    string // what it returned, what it waits for, and the condition Moving
		reviews int
	}{
		"no policy lets it":                   {policy: never, stored: stored(waits, nil), review: west, at: late, want: "0 <nil> "},
		"another scheduler decides":           {policy: scheduled, stored: stored(nil, nil), review: west, at: late, want: "0 <nil> "},
		"it has a pin":                        {pinned: true, stored: stored(waits, nil), review: west, at: late, want: "0 <nil> "},
		"what is preferred is not ready":      {cluster: silent("west"), stored: stored(waits, nil), review: west, at: late, want: "0 <nil> "},
		"there is no room":                    {stored: stored(waits, nil), review: stays, at: late, want: "0 <nil> ", reviews: 1},
		"there is room, from now on":          {stored: stored(nil, nil), review: west, at: late, want: "0 [west] at 100 " + waiting + "2026-01-02T03:05:45Z", reviews: 1},
		"there was room before":               {stored: stored(waits, nil), review: west, at: late - time.Second, want: "0 [west] at 40 " + waiting + "2026-01-02T03:04:45Z", reviews: 1},
		"there was room for the time":         {stored: stored(waits, nil), review: west, at: late, want: "1 <nil> ", reviews: 1},
		"for the time, but it returned today": {stored: stored(waits, again), review: west, at: late, want: "1 [west] at 40 WaitsToReturn: policies prefer west: it returns once that was ready for it for 2m0s since 2026-01-02T03:04:45Z", reviews: 1},
		"for twice the time":                  {stored: stored(waits, again), review: west, at: late + time.Minute, want: "2 <nil> ", reviews: 1},
		"something keeps it":                  {stored: stored(waits, nil), review: blocked, at: late, want: "0 [west] at 40 Blocked: a claim", reviews: 1},
		"another one is on its way there":     {stored: stored(waits, nil), review: west, coming: true, at: late, want: "0 [west] at 40 Queued: units return one by one to a physical cluster, and another one is on its way", reviews: 1},
		"the review is of another decision":   {stored: stored(waits, nil), review: placementv1alpha1.PlacementReviewStatus{Decided: []string{"north"}, PhysicalClusters: []string{"west"}}, at: late, want: "0 <nil> ", reviews: 1},
	} {
		t.Run(name, func(t *testing.T) {
			policy, cluster, namespace := westFirst(), readyWest(), complete()
			if c.policy != nil {
				policy = c.policy
			}
			if c.cluster != nil {
				cluster = c.cluster
				cluster.Labels = map[string]string{"region": "west"}
			}
			if c.pinned {
				namespace = pinnedNamespace("east")
			}
			f := newFixture(t, []runtime.Object{policy, cluster, namespace, c.stored}...)
			f.review = c.review
			if c.coming {
				f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{
					Cause: placementv1alpha1.CauseDrain, To: []string{"west"}, From: []string{"north"}, Started: metav1.NewTime(start.Add(c.at)), Phase: placementv1alpha1.TransitionStarting})
			}
			f.clock.SetTime(start.Add(c.at))
			f.look()
			p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, awaits := "0", "<nil>"
			if r := p.Spec.Returned; r != nil {
				got = fmt.Sprint(r.Times)
			}
			if a := p.Status.Awaited; a != nil && p.Spec.Transition == nil {
				awaits = fmt.Sprintf("%v at %.0f", a.PhysicalClusters, a.Since.Sub(start).Seconds())
			}
			got += " " + awaits + " "
			if m := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving); m != nil {
				got += m.Reason + ": " + m.Message
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if moves := p.Spec.Transition != nil; moves != (c.want[2:] == "<nil> " && c.want[0] != '0') || moves && (p.Spec.Transition.Cause != placementv1alpha1.CauseReturn || !slices.Equal(p.Spec.Transition.To, []string{"west"})) {
				t.Errorf("the transition is %+v", p.Spec.Transition)
			}
			asked := 0
			for _, a := range f.atoll.Actions() {
				if a.Matches("create", "placementreviews") {
					asked++
				}
			}
			if asked != c.reviews {
				t.Errorf("%d reviews were asked for, want %d", asked, c.reviews)
			}
		})
	}
}

// What is stored decides: a server that has just started waits, and does not forget; one
// that has asked lately asks no more.
func TestALookAtWhatMayReturnIsNotRepeatedBeforeItsTime(t *testing.T) {
	p := placementOf("east")
	p.Status.Awaited = &placementv1alpha1.Awaited{PhysicalClusters: []string{"west"}, Since: metav1.NewTime(start.Add(placement.Silence))}
	f := newFixture(t, westFirst(), readyWest(), complete(), p)
	f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}}
	reviews := func() (n int) {
		for _, a := range f.atoll.Actions() {
			if a.Matches("create", "placementreviews") {
				n++
			}
		}
		return n
	}
	f.clock.SetTime(start.Add(placement.Silence + time.Second))
	for range 3 {
		if again := f.look().RequeueAfter; again > 12*time.Second {
			t.Errorf("looks again after %s", again)
		}
	}
	if n := reviews(); n != 1 {
		t.Errorf("%d reviews in one look", n)
	}
	f.clock.SetTime(start.Add(placement.Silence + 20*time.Second))
	f.look()
	if n := reviews(); n != 2 {
		t.Errorf("%d reviews in two looks", n)
	}
}
