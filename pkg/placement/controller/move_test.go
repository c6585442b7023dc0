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
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement/pace"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
)

// pinnedNamespace is complete, with a pin elsewhere.
func pinnedNamespace(cluster string) *corev1.Namespace {
	n := complete()
	n.Annotations[placementv1alpha1.PhysicalClusterAnnotation] = cluster
	return n
}

func TestWhetherANamespaceBeginsToMove(t *testing.T) {
	west := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Move: placementv1alpha1.MoveAuto, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 7}}
	with := func(change func(*placementv1alpha1.PlacementReviewStatus)) placementv1alpha1.PlacementReviewStatus {
		s := *west.DeepCopy()
		change(&s)
		return s
	}
	policy := &placementv1alpha1.PlacementPolicy{ObjectMeta: owned("here", "pp-1")}
	policy.Namespace = "web"
	policy.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "west"}}}
	never := func(s *placementv1alpha1.PlacementReviewStatus) { s.Move = placementv1alpha1.MoveNever }
	forget := func(s *fleetv1alpha1.PhysicalClusterSpec) { s.Forget = true }
	drains := func(s *fleetv1alpha1.PhysicalClusterSpec) { s.Drain.Requested = true }
	expired := func(s *fleetv1alpha1.PhysicalClusterSpec) {
		s.Drain = fleetv1alpha1.Drain{Requested: true, Deadline: &metav1.Time{Time: start}}
	}
	for name, c := range map[string]struct {
		byPolicy bool
		apart    bool                                     // from what it has to be with
		admin    func(*fleetv1alpha1.PhysicalClusterSpec) // what an admin says of where it is
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
		"the server wants nothing else":                                   {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.PhysicalClusters = s.Decided })},
		"something cannot move":                                           {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.Obstacles = []string{"a claim", "a pod"} }), stays: "Blocked: a claim; a pod"},
		"too many move":                                                   {review: west, full: true, stays: "Queued: as many units move as may move at a time"},
		"a policy waits for a moment":                                     {review: west, byPolicy: true},
		"a policy that stands moves":                                      {review: west, byPolicy: true, wait: settleDelay, cause: placementv1alpha1.CausePolicy},
		"a policy moves nothing that is never moved":                      {review: with(never), byPolicy: true, wait: settleDelay, stays: "MoveNever: it would move to west, but the policies say that it is never moved"},
		"what an admin gave up is left at once, also what is never moved": {review: with(never), admin: forget, cause: placementv1alpha1.CauseLost},
		"what is drained, too, is lost first":                             {review: west, admin: func(s *fleetv1alpha1.PhysicalClusterSpec) { drains(s); forget(s) }, cause: placementv1alpha1.CauseLost},
		"but what an admin gave up is not left with a claim":              {review: with(func(s *placementv1alpha1.PlacementReviewStatus) { s.Obstacles = []string{"a claim"} }), admin: forget, stays: "Blocked: a claim"},
		"who should be beside others and is not stays":                    {review: west, apart: true, byPolicy: true, wait: settleDelay},
		"but leaves by a drain":                                           {review: west, apart: true, admin: drains, cause: placementv1alpha1.CauseDrain},
		"after the deadline of a drain policies count again":              {review: west, admin: expired, byPolicy: true, wait: settleDelay, cause: placementv1alpha1.CausePolicy},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := complete()
			east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
			policy := policy.DeepCopy()
			if c.apart {
				policy.Spec.Terms, policy.Spec.Affinity = nil, []placementv1alpha1.UnitAffinity{{Type: placementv1alpha1.AffinityWith, NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
			}
			if c.admin != nil {
				c.admin(&east.Spec)
			}
			f := newFixture(t, policy, namespace, placementOf("east"), east)
			if !c.byPolicy && c.admin == nil {
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
					Cause: c.cause, Phase: placementv1alpha1.TransitionStarting, Started: now, Since: now, To: []string{"west"}, From: []string{"east"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 7},
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

func unstructuredOf(t *testing.T, m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// inLine is a queued unit of a drain of east.
func inLine(f *fixture, namespace string, since time.Time) {
	f.moves.wait(controller.Request{Cluster: "shop", Namespace: namespace, Name: placementv1alpha1.NamespaceUnit},
		pace.Move{Cluster: "shop", Cause: placementv1alpha1.CausePinned, From: []string{"east"}, To: []string{"west"}}, since)
}

func TestAPlacementThatIsGoneNeitherMovesNorWaits(t *testing.T) {
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Annotations: map[string]string{logicalcluster.AnnotationKey: "bank"}}}
	key := controller.RequestFor(p)
	m := newMoves()
	m.set(key, &placementv1alpha1.Transition{})
	if !m.observe(p, nil, start, true) || m.in(key) {
		t.Error("a placement that is gone moves, or made no room")
	}
	m.wait(key, pace.Move{}, start)
	if m.observe(p, nil, start, true) || m.waits(key) {
		t.Error("a placement that is gone waits")
	}
}

// What policies move is bounded by the policies that a unit hears, of all levels; what a user
// or an admin asked for by name is not.
func TestWhatPoliciesMoveIsBoundedByThem(t *testing.T) {
	one := int32(1)
	fleet := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: owned("fleet", "cpp-1")}
	fleet.Annotations = map[string]string{logicalcluster.AnnotationKey: "root"}
	fleet.Spec.MaxMoving = &one
	own := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: owned("own", "cpp-2")}
	own.Spec.MaxMoving, own.Spec.NamespaceSelector = &one, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "other"}}
	f := newFixture(t, complete(), placementOf("east"), fleet, own)
	another := controller.Request{Cluster: "bank", Namespace: "another", Name: placementv1alpha1.NamespaceUnit}
	f.moves.set(another, &placementv1alpha1.Transition{Cause: placementv1alpha1.CausePolicy, Phase: placementv1alpha1.TransitionStarting, From: []string{"north"}, Started: metav1.NewTime(start.Add(-time.Hour))})
	for cause, want := range map[placementv1alpha1.TransitionCause]string{
		placementv1alpha1.CausePolicy: "policy fleet lets 1 of the units that it selects move at a time",
		placementv1alpha1.CauseReturn: "policy fleet lets 1 of the units that it selects move at a time",
		placementv1alpha1.CausePinned: "", placementv1alpha1.CauseDrain: "", placementv1alpha1.CauseLost: "",
	} {
		if got := f.full(web, &placementv1alpha1.Transition{Cause: cause, From: []string{"east"}}); got != want {
			t.Errorf("%s: %q, want %q", cause, got, want)
		}
	}
	f.moves.set(another, nil)
	if got := f.full(web, &placementv1alpha1.Transition{Cause: placementv1alpha1.CausePolicy, From: []string{"east"}}); got != "" {
		t.Errorf("nothing moves, and it waits: %s", got)
	}
}

// An admin says how many leave by a drain, whatever else moves.
func TestADrainHasTheRateThatItsAdminSets(t *testing.T) {
	east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	east.Spec.Drain = fleetv1alpha1.Drain{Requested: true, MaxMoving: 2}
	f := newFixture(t, complete(), placementOf("east"), east)
	f.MaxMoves = 1
	leaves := &placementv1alpha1.Transition{Cause: placementv1alpha1.CauseDrain, Phase: placementv1alpha1.TransitionDraining, From: []string{"east"}, To: []string{"west"}}
	for i, want := range []bool{true, true, false} {
		if room := f.full(web, leaves) == ""; room != want {
			t.Errorf("beside %d others: room %v, want %v", i, room, want)
		}
		f.moves.set(controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)}, leaves)
	}
}

// What runs in both places, as it does not become available where it goes, takes the place of
// another one in its drain, and of what is of its logical cluster; what waits for a removal does not.
func TestWhatDoesNotArriveHoldsItsOwnUp(t *testing.T) {
	east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	east.Spec.Drain = fleetv1alpha1.Drain{Requested: true, MaxMoving: maxMovesOfTenant}
	for _, cause := range []placementv1alpha1.TransitionCause{placementv1alpha1.CauseDrain, placementv1alpha1.CausePinned} {
		for phase, holds := range map[placementv1alpha1.TransitionPhase]bool{placementv1alpha1.TransitionStarting: true, placementv1alpha1.TransitionRemoving: false} {
			f := newFixture(t, complete(), placementOf("east"), east)
			long := metav1.NewTime(f.clock.Now().Add(-pace.SlotTime - time.Second))
			leaves := &placementv1alpha1.Transition{Cause: cause, Phase: phase, Started: long, Since: long, From: []string{"east"}, To: []string{"west"}}
			for i := range maxMovesOfTenant {
				if why := f.full(web, leaves); why != "" {
					t.Errorf("%s, %s: beside %d others it waits: %s", cause, phase, i, why)
				}
				f.moves.set(controller.Request{Cluster: "shop", Namespace: fmt.Sprint(i)}, leaves)
			}
			if why := f.full(web, leaves); (why != "") != holds {
				t.Errorf("%s, %s: beside all others: %q", cause, phase, why)
			}
			if why := f.full(controller.Request{Cluster: "bank", Namespace: "web"}, leaves); why != "" {
				t.Errorf("%s, %s: another logical cluster waits: %s", cause, phase, why)
			}
		}
	}
}

// What cannot move says so also while there is no room, and takes no place in the queue.
func TestWhatIsBlockedStaysSoWhileThereIsNoRoom(t *testing.T) {
	p := placementOf("east")
	p.Status.Conditions = []metav1.Condition{{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: "Blocked", Message: "a claim"}}
	f := newFixture(t, pinnedNamespace("west"), p)
	f.MaxMoves = 1
	f.moves.set(controller.Request{Cluster: "shop", Namespace: "another"}, &placementv1alpha1.Transition{From: []string{"north"}})
	f.look()
	got, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if said := meta.FindStatusCondition(got.Status.Conditions, placementv1alpha1.ConditionMoving); said == nil || said.Reason != "Blocked" || f.moves.waits(web) {
		t.Errorf("%+v, it waits: %v", said, f.moves.waits(web))
	}
}

// A phase that lasts is looked at less and less without an event.
func TestAPhaseThatLastsIsLookedAtLessOften(t *testing.T) {
	for lasts, want := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Second: time.Second, 20 * time.Second: 5 * time.Second, time.Hour: 15 * time.Second} {
		if got := lookAgain(lasts); got != want {
			t.Errorf("after %s: %s, want %s", lasts, got, want)
		}
	}
}

func TestWhatIsReadBeforeAStep(t *testing.T) {
	in := func(phase placementv1alpha1.TransitionPhase, from ...string) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{Phase: phase, From: from}
	}
	starting, draining, removing := placementv1alpha1.TransitionStarting, placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionRemoving
	for name, c := range map[string]struct {
		t    *placementv1alpha1.Transition
		step transition.Step
		want string
	}{
		"traffic is withdrawn":     {in(starting, "east"), transition.Step{Phase: draining}, known},
		"removals begin":           {in(draining, "east"), transition.Step{Phase: removing}, live},
		"at once":                  {in(starting, "east"), transition.Step{Phase: removing}, live},
		"traffic comes back":       {in(draining, "east"), transition.Step{Phase: starting}, live},
		"volumes are handed over":  {in(removing, "east"), transition.Step{Phase: placementv1alpha1.TransitionHandingOver}, live},
		"it is over":               {in(removing, "east"), transition.Step{Phase: removing, Done: true}, reported},
		"it is over, nothing left": {in(starting), transition.Step{Phase: starting, Done: true}, live},
	} {
		if got := confirms(c.t, c.step); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatATransitionWaitsForIsBounded(t *testing.T) {
	waits := strings.Split(strings.Repeat("x,", 30)+"x", ",")
	spec := placementv1alpha1.PlacementSpec{Transition: &placementv1alpha1.Transition{From: []string{"east"}, To: []string{"west"}, Phase: placementv1alpha1.TransitionStarting}}
	c := moving(spec, transition.Step{Waits: waits}, "")
	if want := "from east to west; waits: x; x; x; x; x; and 26 more"; c.Message != want || c.Reason != "Starting" {
		t.Errorf("%s: %q, want %q", c.Reason, c.Message, want)
	}
}

// A server that ended and began again, or took over, has others see what was withdrawn for as long as the phase is to last.
func TestTrafficIsWithdrawnSinceThisServerKnows(t *testing.T) {
	m, key, began := newMoves(), controller.Request{Cluster: "shop", Namespace: "web", Name: "namespace"}, time.Unix(1000, 0)
	at := func(phase placementv1alpha1.TransitionPhase, since int64) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{Phase: phase, Since: metav1.Unix(since, 0)}
	}
	draining := at(placementv1alpha1.TransitionDraining, 900)
	for i, c := range []struct {
		t           *placementv1alpha1.Transition
		isWithdrawn bool
		now         int
		want        int
	}{
		{draining, false, 0, 0}, {draining, false, 2, 2}, // nobody can see it yet
		{draining, true, 3, 3}, {draining, true, 8, 3},
		{draining, false, 9, 9}, {draining, true, 10, 10}, // an object came that does not say so
		{at(placementv1alpha1.TransitionDraining, 1010), true, 12, 12}, // after it was taken back
		{at(placementv1alpha1.TransitionRemoving, 1020), true, 20, 20},
		{at(placementv1alpha1.TransitionDraining, 1010), true, 21, 21},
		{nil, true, 22, 22},
	} {
		second := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
		if got := m.drainsSince(key, c.t, c.isWithdrawn, second(c.now)); !got.Equal(second(c.want)) {
			t.Errorf("step %d: since %s, want %s", i, got, second(c.want))
		}
	}
	if len(m.draining) > 0 {
		t.Errorf("it remembers %v", m.draining)
	}
	m.drainsSince(key, draining, true, began)
	if m.set(key, draining); len(m.draining) != 1 {
		t.Error("it has forgotten")
	}
	if m.set(key, nil); len(m.draining) > 0 {
		t.Errorf("it remembers %v of what has ended", m.draining)
	}
}

// What was available, then was not, and is again has not been available all the time.
func TestANewAddressWaitsForWhatThisServerHasSeenWithoutABreak(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	missing := false
	c := &Controller{Config: Config{Clock: clock, Next: func(t *placementv1alpha1.Transition, s transition.State) transition.Step {
		if missing {
			return transition.Step{Phase: placementv1alpha1.TransitionStarting, Missing: true}
		}
		if t.Phase != placementv1alpha1.TransitionStarting {
			return transition.Step{Phase: t.Phase}
		}
		if s.AvailableSince.IsZero() {
			return transition.Step{Phase: t.Phase, Again: time.Hour}
		}
		return transition.Step{Phase: t.Phase, Again: s.Now.Sub(s.AvailableSince)}
	}}, moves: newMoves()}
	p := movesSince(placementv1alpha1.TransitionStarting, start)
	u := &unit{key: controller.RequestFor(p), placement: p}
	const never = time.Hour
	for i, step := range []struct {
		at      time.Duration
		missing bool
		change  func()
		want    time.Duration
	}{
		{0, true, nil, 0}, {2 * time.Second, true, nil, 0},
		{3 * time.Second, false, nil, never}, {5 * time.Second, false, nil, 2 * time.Second},
		{6 * time.Second, true, nil, 0}, {7 * time.Second, false, nil, never}, {9 * time.Second, false, nil, 2 * time.Second},
		// It drained, and came back.
		{10 * time.Second, false, func() { p.Spec.Transition.Phase = placementv1alpha1.TransitionDraining }, 0},
		{11 * time.Second, false, func() { p.Spec.Transition.Phase = placementv1alpha1.TransitionStarting }, never},
		{13 * time.Second, false, nil, 2 * time.Second},
		// A change of mind begins a phase of the same name.
		{14 * time.Second, false, func() { p.Spec.Transition.Since = metav1.NewTime(start.Add(14 * time.Second)) }, never},
		{15 * time.Second, false, nil, time.Second},
	} {
		if missing = step.missing; step.change != nil {
			step.change()
		}
		clock.SetTime(start.Add(step.at))
		if got := c.next(u, c.transitionOf(u), transition.State{Now: clock.Now()}).Again; got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if c.moves.set(u.key, nil); len(c.moves.available) > 0 {
		t.Errorf("it remembers %v of what has ended", c.moves.available)
	}
}
