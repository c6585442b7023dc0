package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

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
		"a pin moves at once":            {review: west, cause: placementv1alpha1.CausePinned},
		"a pin moves what no policy may": {review: with(never), cause: placementv1alpha1.CausePinned},
		"there is nowhere to go":         {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.PhysicalClusters, s.Message = nil, "none fits" }), stays: "NowhereToGo: none fits"},
		"another scheduler has not answered": {review: with(func(s *placementv1alpha1.PlacementReviewStatus) {
			s.PhysicalClusters, s.SchedulerName, s.Message = nil, "cost", "it has to"
		}), byPolicy: true, wait: settleDelay, stays: "WaitsForScheduler: it has to"},
		"the server wants nothing else":              {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.PhysicalClusters = s.Decided })},
		"something cannot move":                      {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.Obstacles = []string{"a claim", "a pod"} }), stays: "Blocked: a claim; a pod"},
		"too many move":                              {review: west, full: true, stays: "Queued: as many units move as may move at a time"},
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
				f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{From: []string{"north"}})
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

func TestWhatAnEarlierNamespaceLeftInAnInformerIsNotRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		stored []runtime.Object
		from   []string
	}{
		"it is gone, and the informer is late":           {nil, nil},
		"a server that was behind stamped what is there": {[]runtime.Object{unstructuredOf(t, deployment("a", `{"east":{},"west":{}}`, 0))}, []string{"west"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, complete(), placementOf("east"), deployment("a", `{"east":{},"west":{}}`, 0))
			lists := map[schema.GroupVersionResource]string{}
			for _, kind := range f.Kinds.Current().Kinds() {
				lists[kind.GroupVersionResource()] = kind.Kind + "List"
			}
			f.Dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists,
				append(c.stored, unstructuredOf(t, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: complete().ObjectMeta}))...)
			f.look()
			p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var from []string
			if p.Spec.Transition != nil {
				from = p.Spec.Transition.From
			}
			if diff := cmp.Diff(c.from, from); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALookAtAMoveAsksOnlyForWhatThereIs: a unit that moves is looked at each second, and of
// most kinds it has nothing. What is read before a phase ends is read of all kinds.
func TestALookAtAMoveAsksOnlyForWhatThereIs(t *testing.T) {
	p := placementOf("west")
	p.Spec.Transition = &placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting, From: []string{"east"}, To: []string{"west"}}
	d := deployment("a", `{"east":{},"west":{}}`, 0)
	f := newFixture(t, complete(), p, d)
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range f.Kinds.Current().Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	namespace := unstructuredOf(t, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: complete().ObjectMeta})
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, unstructuredOf(t, d), namespace)
	f.Dynamic = client
	u, ok, err := f.read(t.Context(), web)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	asked := func(from string) map[string]bool {
		client.ClearActions()
		s, _, err := f.state(t.Context(), u, from)
		if err != nil || len(s.Objects) != 2 {
			t.Fatalf("%d objects, %v", len(s.Objects), err)
		}
		out := map[string]bool{}
		for _, a := range client.Actions() {
			out[a.GetResource().Resource] = true
		}
		return out
	}
	// The informers of the fixture know of four kinds only.
	from := asked(cached)
	for _, none := range []string{"services", "limitranges"} {
		if from[none] {
			t.Errorf("it asks for %s, of which there are none", none)
		}
	}
	if !from["deployments"] || !from["namespaces"] {
		t.Errorf("it asks for %v", from)
	}
	if all := asked(live); !all["services"] || !all["limitranges"] || !all["deployments"] {
		t.Errorf("from the database it asks for %v", all)
	}
}

func unstructuredOf(t *testing.T, m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func TestMovesAreCountedSoThatNobodyKeepsOthersFromMoving(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	key := func(cluster, name string) controller.Request {
		return controller.Request{Cluster: logicalcluster.Name(cluster), Namespace: name}
	}
	move := func(cause placementv1alpha1.TransitionCause, from, to string, age time.Duration) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{
			Cause: cause, From: []string{from}, To: []string{to}, Phase: placementv1alpha1.TransitionStarting, Started: metav1.NewTime(now.Add(-age)),
		}
	}
	removing := func(age time.Duration) *placementv1alpha1.Transition {
		t := move(placementv1alpha1.CauseLost, "a", "b", time.Hour)
		t.Phase, t.Since = placementv1alpha1.TransitionRemoving, metav1.NewTime(now.Add(-age))
		return t
	}
	const pin, drain = placementv1alpha1.CausePinned, placementv1alpha1.CauseDrain
	for name, c := range map[string]struct {
		others []*placementv1alpha1.Transition
		key    controller.Request
		t      *placementv1alpha1.Transition
		want   bool
	}{
		"room":                             {[]*placementv1alpha1.Transition{move(pin, "a", "b", 0)}, key("shop", "x"), move(pin, "c", "d", 0), true},
		"too many in all":                  {[]*placementv1alpha1.Transition{move(pin, "a", "b", 0), move(pin, "c", "d", 0), move(pin, "e", "f", 0)}, key("shop", "x"), move(pin, "g", "h", 0), false},
		"too many leave one":               {[]*placementv1alpha1.Transition{move(pin, "a", "b", 0), move(pin, "a", "c", 0)}, key("shop", "x"), move(pin, "a", "d", 0), false},
		"too many come to one":             {[]*placementv1alpha1.Transition{move(pin, "a", "b", 0), move(pin, "c", "b", 0)}, key("shop", "x"), move(pin, "d", "b", 0), false},
		"what moves may turn round":        {[]*placementv1alpha1.Transition{move(pin, "a", "b", 0), move(pin, "a", "b", 0), move(pin, "a", "b", 0)}, key("other", "0"), move(pin, "b", "a", 0), true},
		"what does not come on":            {[]*placementv1alpha1.Transition{move(pin, "a", "b", time.Hour), move(pin, "a", "b", time.Hour), move(pin, "a", "b", 0)}, key("shop", "x"), move(pin, "a", "b", 0), true},
		"what waits for a lost one":        {[]*placementv1alpha1.Transition{removing(time.Hour), removing(time.Hour), removing(0)}, key("shop", "x"), move(pin, "a", "b", 0), true},
		"what is being removed":            {[]*placementv1alpha1.Transition{removing(0), removing(0)}, key("shop", "x"), move(pin, "a", "b", 0), false},
		"tenants do not hold a drain up":   {[]*placementv1alpha1.Transition{move(pin, "a", "b", 0), move(pin, "a", "b", 0), move(pin, "a", "b", 0)}, key("shop", "x"), move(drain, "a", "b", 0), true},
		"a drain does not hold tenants up": {[]*placementv1alpha1.Transition{move(drain, "a", "b", 0), move(drain, "a", "b", 0), move(drain, "a", "b", 0)}, key("shop", "x"), move(pin, "a", "b", 0), true},
	} {
		m := newMoves()
		for i, other := range c.others {
			m.set(key("other", fmt.Sprint(i)), other)
		}
		if got := m.take(c.key, c.t, bounds{3, 2}, now); got != c.want || m.in(c.key) != (c.want || c.key.Cluster == "other") {
			t.Errorf("%s: %v", name, got)
		}
	}
	m := newMoves()
	for i := range maxMovesOfTenant {
		if !m.take(key("shop", fmt.Sprint(i)), move(pin, "a", "b", 0), bounds{99, 99}, now) {
			t.Errorf("move %d of a tenant waits", i)
		}
	}
	if m.take(key("shop", "x"), move(pin, "a", "b", 0), bounds{99, 99}, now) || !m.take(key("bank", "x"), move(pin, "a", "b", 0), bounds{99, 99}, now) {
		t.Error("a tenant has more than its share, or another one has to wait for it")
	}
	m.observe(&placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Annotations: map[string]string{logicalcluster.AnnotationKey: "bank"}}}, nil)
	if m.in(key("bank", "x")) {
		t.Error("a placement that is gone moves")
	}
}

func TestWhatATransitionWaitsForIsBounded(t *testing.T) {
	waits := strings.Split(strings.Repeat("x,", 30)+"x", ",")
	c := moving(&placementv1alpha1.Transition{From: []string{"east"}, To: []string{"west"}, Phase: placementv1alpha1.TransitionStarting}, transition.Step{Waits: waits})
	if want := "from east to west; waits: x; x; x; x; x; and 26 more"; c.Message != want || c.Reason != "Starting" {
		t.Errorf("%s: %q, want %q", c.Reason, c.Message, want)
	}
}
