package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
)

// pinnedNamespace is complete, with a pin elsewhere.
func pinnedNamespace(cluster string) *corev1.Namespace {
	n := complete()
	n.Annotations[placementv1alpha1.PhysicalClusterAnnotation] = cluster
	return n
}

func TestWhetherANamespaceBeginsToMove(t *testing.T) {
	west := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Move: placementv1alpha1.MoveAuto, DrainSeconds: 7}
	with := func(change func(*placementv1alpha1.PlacementReviewStatus)) placementv1alpha1.PlacementReviewStatus {
		s := *west.DeepCopy()
		change(&s)
		return s
	}
	policy := &placementv1alpha1.PlacementPolicy{ObjectMeta: owned("here", "pp-1")}
	policy.Namespace = "web"
	policy.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "west"}}}
	never := func(s *placementv1alpha1.PlacementReviewStatus) { s.Move = placementv1alpha1.MoveNever }
	for name, c := range map[string]struct {
		byPolicy bool
		review   placementv1alpha1.PlacementReviewStatus
		full     bool
		wait     time.Duration
		cause    placementv1alpha1.TransitionCause // of the transition that begins
		stays    string                            // or why none does
	}{
		"a pin moves at once":                        {review: west, cause: placementv1alpha1.CausePinned},
		"a pin moves what no policy may":             {review: with(never), cause: placementv1alpha1.CausePinned},
		"there is nowhere to go":                     {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.PhysicalClusters, s.Message = nil, "none fits" }), stays: "NowhereToGo: none fits"},
		"the server wants nothing else":              {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.PhysicalClusters = s.Decided })},
		"something cannot move":                      {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.Obstacles = []string{"a claim", "a pod"} }), stays: "Blocked: a claim; a pod"},
		"too many move":                              {review: west, full: true, stays: "Queued: as many namespaces move as may move at a time"},
		"a policy waits for a moment":                {review: west, byPolicy: true},
		"a policy that stands moves":                 {review: west, byPolicy: true, wait: settleDelay, cause: placementv1alpha1.CausePolicy},
		"a policy moves nothing that is never moved": {review: with(never), byPolicy: true, wait: settleDelay, stays: "MoveNever: it would move to west, but the policies say that it is never moved"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := complete()
			f := newFixture(t, policy.DeepCopy(), namespace, placementOf("east"))
			if !c.byPolicy {
				f = newFixture(t, pinnedNamespace("west"), placementOf("east"))
			}
			f.review = c.review
			if c.full {
				f.MaxMoves = 1
				f.moves.began(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{From: []string{"north"}})
			}
			f.look()
			f.clock.SetTime(f.clock.Now().Add(c.wait))
			if c.wait > 0 {
				f.look()
			}
			p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var want *placementv1alpha1.Transition
			decided := "east"
			if c.cause != "" {
				now := metav1.NewTime(f.clock.Now())
				decided, want = "west", &placementv1alpha1.Transition{
					Cause: c.cause, Phase: placementv1alpha1.TransitionStarting, Started: now, Since: now, To: []string{"west"}, From: []string{"east"}, DrainSeconds: 7,
				}
			}
			if diff := cmp.Diff(want, p.Spec.Transition); diff != "" || p.Spec.Decision.PhysicalClusters[0].Name != decided {
				t.Errorf("decided for %+v, transition (-want +got):\n%s", p.Spec.Decision.PhysicalClusters, diff)
			}
			said := ""
			if c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving); c != nil {
				said = c.Reason + ": " + c.Message
			}
			if diff := cmp.Diff(c.stays, said); diff != "" {
				t.Errorf("condition Moving (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMovesAreCountedInAllAndForEachPhysicalCluster(t *testing.T) {
	key := func(name string) controller.Request { return controller.Request{Cluster: "shop", Namespace: name} }
	to := func(from, to string) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{From: []string{from}, To: []string{to}}
	}
	m := newMoves()
	m.began(key("a"), to("east", "west"))
	m.began(key("b"), to("east", "north"))
	for name, c := range map[string]struct {
		key        string
		t          *placementv1alpha1.Transition
		most, each int
		want       bool
	}{
		"room":                               {"c", to("south", "west"), 3, 2, true},
		"too many in all":                    {"c", to("south", "west"), 2, 9, false},
		"too many leave one":                 {"c", to("east", "south"), 9, 2, false},
		"too many come to one":               {"c", to("south", "west"), 9, 1, false},
		"what moves already may turn around": {"a", to("west", "east"), 1, 1, true},
	} {
		if got := m.room(key(c.key), c.t, c.most, c.each); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	m.observe(&placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "x"}}, nil)
	m.began(key("a"), nil)
	m.began(key("b"), nil)
	if len(m.counts)+len(m.units) > 0 {
		t.Errorf("of moves that ended %v and %v are left", m.units, m.counts)
	}
}

func TestWhatATransitionWaitsForIsBounded(t *testing.T) {
	waits := strings.Split(strings.Repeat("x,", 30)+"x", ",")
	c := moving(&placementv1alpha1.Transition{From: []string{"east"}, To: []string{"west"}, Phase: placementv1alpha1.TransitionStarting}, transition.Step{Waits: waits})
	if want := "from east to west; waits: x; x; x; x; x; and 26 more"; c.Message != want || c.Reason != "Starting" {
		t.Errorf("%s: %q, want %q", c.Reason, c.Message, want)
	}
}
