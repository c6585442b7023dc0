package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// isReady is a physical cluster that is ready since the fixture's clock began.
func isReady(name string) *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": name}, Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
	return pc
}

// goesBack lets moves go back that are stuck for a minute.
func goesBack() *placementv1alpha1.PlacementPolicy {
	policy := westFirst()
	policy.Spec.Move.IfStuck, policy.Spec.Move.StuckAfterSeconds = placementv1alpha1.IfStuckGoBack, ptr.To[int32](60)
	return policy
}

// onItsWay is a placement that goes from east to west since the fixture's clock began.
func onItsWay(cause placementv1alpha1.TransitionCause) *placementv1alpha1.Placement {
	p := placementOf("west")
	p.Spec.Transition = &placementv1alpha1.Transition{
		Cause: cause, Phase: placementv1alpha1.TransitionStarting, Started: metav1.NewTime(start), Since: metav1.NewTime(start), From: []string{"east"}, To: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 7},
	}
	return p
}

// app is a Deployment of one replica, as the database has it.
func app(targets, image string) runtime.Object {
	o := whole("Deployment", "uid-web", targets, map[string]any{"replicas": int64(1), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": image}}}}})
	o.SetFinalizers(nil)
	return o
}

// stores has the database have objects, beside the Namespace.
func (f *fixture) stores(targets string, objects ...runtime.Object) {
	f.t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range f.Kinds.Current().Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	n := complete()
	n.Annotations[placementv1alpha1.TargetsAnnotation] = targets
	namespace := unstructuredOf(f.t, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: n.ObjectMeta})
	f.Dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, append(objects, namespace)...)
}

func (f *fixture) placement() *placementv1alpha1.Placement {
	f.t.Helper()
	p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(f.t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fixture) moving() string {
	f.t.Helper()
	c := meta.FindStatusCondition(f.placement().Status.Conditions, placementv1alpha1.ConditionMoving)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

const (
	both    = `{"east":{},"west":{}}`
	minute  = placement.Silence + time.Minute // when a move of a minute is stuck for a server that has just started
	lacking = "Deployment web on west: 0 of 1 pods are available"
)

func TestAMoveThatIsStuckGoesBack(t *testing.T) {
	t.Parallel()
	const waits = "True Starting: from east to west; waits: " + lacking
	kept := func(why string) string { return waits + "; is stuck, and does not go back: " + why }
	wait, divided, counts, elsewhere := goesBack(), goesBack(), goesBack(), goesBack()
	wait.Spec.Move.IfStuck = ""
	divided.Spec.Replicas = &placementv1alpha1.ReplicaRules{Mode: placementv1alpha1.ReplicasDivide}
	counts.Spec.SchedulerName = "cost"
	elsewhere.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "west"}}}
	east := func(change func(*fleetv1alpha1.PhysicalCluster)) *fleetv1alpha1.PhysicalCluster {
		pc := isReady("east")
		change(pc)
		return pc
	}
	patient := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: owned("patient", "cpp-1")}
	patient.Annotations[logicalcluster.AnnotationKey] = "root"
	patient.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](3600)}}
	for name, c := range map[string]struct {
		policy *placementv1alpha1.PlacementPolicy
		also   runtime.Object
		east   *fleetv1alpha1.PhysicalCluster
		cause  placementv1alpha1.TransitionCause
		change func(*placementv1alpha1.Placement)
		pin    string
		stored []runtime.Object
		at     time.Duration
		want   string // the condition, if it does not go back
		goes   bool
	}{
		"what returned":                        {goes: true},
		"what policies moved":                  {cause: placementv1alpha1.CausePolicy, goes: true},
		"what left a drain that was cancelled": {cause: placementv1alpha1.CauseDrain, goes: true},
		"what left what answers again":         {cause: placementv1alpha1.CauseLost, goes: true},
		"what had a pin, and has none":         {cause: placementv1alpha1.CausePinned, goes: true},
		"not before the time":                  {at: minute - time.Second, want: waits},
		"not if no policy says so":             {policy: wait, want: waits},
		"not what is available": {stored: []runtime.Object{whole("Deployment", "uid-web", both, map[string]any{"replicas": int64(0)})},
			want: "moves on"},
		"not what has a pin":               {pin: "west", cause: placementv1alpha1.CausePinned, want: kept("east: the namespace is pinned to west")},
		"not if policies do not permit it": {policy: elsewhere, want: kept("east: no term of policy west-first of the namespace selects it")},
		"not to what is drained":           {east: east(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Drain.Requested = true }), cause: placementv1alpha1.CauseDrain, want: kept("east: it is being drained")},
		"not to what was given up":         {east: east(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Forget = true }), cause: placementv1alpha1.CauseLost, want: kept("east: it was given up (spec.forget is set)")},
		"not to what is tainted": {east: east(func(pc *fleetv1alpha1.PhysicalCluster) {
			pc.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}
		}), cause: placementv1alpha1.CausePolicy, want: kept("east: no policy tolerates its taint a:NoExecute")},
		"not to what does not answer": {east: silent("east"), want: kept("east: the physical cluster is not known to be ready (HeartbeatLost)")},
		"not to what is being removed": {east: east(func(pc *fleetv1alpha1.PhysicalCluster) {
			pc.DeletionTimestamp = &metav1.Time{Time: start}
			pc.Finalizers = []string{"a"}
		}), want: kept("east: the physical cluster is being removed")},
		"what is divided": {policy: divided, change: func(p *placementv1alpha1.Placement) {
			p.Spec.Decision.Division = &placementv1alpha1.DecidedDivision{By: placementv1alpha1.DivideByWeights}
		}, goes: true},
		"not what another scheduler has bound": {policy: counts, cause: placementv1alpha1.CauseBound, change: func(p *placementv1alpha1.Placement) {
			p.Spec.Bound = &placementv1alpha1.Bound{SchedulerName: "cost", PhysicalClusters: []string{"west"}}
		}, want: kept("scheduler cost has bound it to west")},
		"not what was begun there and cannot leave": {stored: []runtime.Object{app(both, "a"), pod(`{"west":{}}`)}, want: kept("Pod web on west: no controller makes it again elsewhere; delete it, or make it by a Deployment")},
		"not what has begun to leave": {change: func(p *placementv1alpha1.Placement) { p.Spec.Transition.Phase = placementv1alpha1.TransitionRemoving },
			want: "True Removing: from east to west; waits: 2 objects are not gone from east; 2 objects have not got their targets"},
		"not what goes back already": {cause: placementv1alpha1.CauseStuck, change: func(p *placementv1alpha1.Placement) {
			p.Spec.Decision.PhysicalClusters[0].Name = "east"
			p.Spec.Transition.To, p.Spec.Transition.From, p.Spec.Transition.Withdrawn = nil, []string{"west"}, []string{"west"}
			p.Spec.WentBack = &placementv1alpha1.WentBack{PhysicalClusters: []string{"west"}, Message: "no pods"}
			p.Spec.Transition.Phase = placementv1alpha1.TransitionRemoving
		}, want: "True Removing: from west, where it did not become available (no pods); waits: 2 objects are not gone from west; 2 objects have not got their targets"},
		"not to where it may be for some time only": {also: patient, east: east(func(pc *fleetv1alpha1.PhysicalCluster) {
			pc.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: start}}}
		}), want: kept("it may be on east until 2026-01-02T04:04:05Z only")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.policy == nil {
				c.policy = goesBack()
			}
			if c.east == nil {
				c.east = isReady("east")
			}
			if c.cause == "" {
				c.cause = placementv1alpha1.CauseReturn
			}
			if c.at == 0 {
				c.at = minute
			}
			if c.stored == nil {
				c.stored = []runtime.Object{app(both, "a")}
			}
			p, n := onItsWay(c.cause), complete()
			if c.change != nil {
				c.change(p)
			}
			n.Annotations[placementv1alpha1.TargetsAnnotation] = both
			if c.pin != "" {
				n.Annotations[placementv1alpha1.PhysicalClusterAnnotation] = c.pin
			}
			stored := append(copiesOnBoth(), c.policy, c.east, isReady("west"), n, p, deployment("web", both, 1), available("uid-pod", "west", 0))
			if c.also != nil {
				stored = append(stored, c.also)
			}
			f := newFixture(t, stored...)
			f.stores(both, c.stored...)
			f.clock.SetTime(start.Add(c.at))
			f.look()
			got := f.placement()
			back := got.Spec.Transition.Cause == placementv1alpha1.CauseStuck && c.cause != placementv1alpha1.CauseStuck
			if back != c.goes {
				t.Fatalf("it goes back: %v; %+v; %s", back, got.Spec.Transition, f.moving())
			}
			if !c.goes {
				if said := f.moving(); said != c.want && !(c.want == "moves on" && got.Spec.Transition.Phase != placementv1alpha1.TransitionStarting) {
					t.Errorf("it says %q, want %q", said, c.want)
				}
				return
			}
			now := metav1.NewTime(start.Add(c.at))
			if diff := cmp.Diff(&placementv1alpha1.Transition{
				Cause: placementv1alpha1.CauseStuck, Phase: placementv1alpha1.TransitionStarting, Started: now, Since: now, From: []string{"west"}, Withdrawn: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 7},
			}, got.Spec.Transition); diff != "" || len(got.Spec.Decision.PhysicalClusters) != 1 || got.Spec.Decision.PhysicalClusters[0].Name != "east" {
				t.Errorf("decided for %v; the transition (-want +got):\n%s", got.Spec.Decision.PhysicalClusters, diff)
			}
			policies := []placementv1alpha1.PolicyReference{{Level: placementv1alpha1.PolicyNamespace, Name: "west-first"}}
			if w := got.Spec.WentBack; w == nil || w.Content == "" {
				t.Errorf("what is remembered: %+v", w)
			} else if diff := cmp.Diff(&placementv1alpha1.WentBack{
				PhysicalClusters: []string{"west"}, At: now, Until: metav1.NewTime(now.Add(5 * time.Minute)), Times: 1, Policies: policies, Content: w.Content, Message: lacking,
			}, w); diff != "" {
				t.Errorf("what is remembered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(policies, got.Spec.Decision.Policies); diff != "" {
				t.Errorf("the policies of the decision (-want +got):\n%s", diff)
			}
			if want := "create events namespace: WentBack goes back from west to east, as it did not become available there for " + c.at.String() + ": " + lacking; !slices.Contains(f.writes(), want) {
				t.Errorf("no event %q in %q", want, f.writes())
			}
		})
	}
}

// copiesOnBoth are those of the Namespace, and of a Deployment that is available on east only.
func copiesOnBoth() []runtime.Object {
	return []runtime.Object{available("ns-1", "east", 0), available("ns-1", "west", 0), available("uid-web", "east", 1), available("uid-web", "west", 0)}
}

// pod is one that nothing makes again.
func pod(targets string) runtime.Object {
	o := whole("Pod", "uid-pod", targets, map[string]any{"containers": []any{}})
	o.SetFinalizers(nil)
	return o
}

// What the watch caches say is not enough: what has become available is not removed.
func TestAMoveThatHasBecomeAvailableDoesNotGoBack(t *testing.T) {
	n := complete()
	n.Annotations[placementv1alpha1.TargetsAnnotation] = both
	f := newFixture(t, append(copiesOnBoth(), goesBack(), isReady("east"), isReady("west"), n, onItsWay(placementv1alpha1.CauseReturn), deployment("web", both, 1))...)
	f.stores(both, app(both, "a"))
	f.atoll.PrependReactor("list", "copies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{*available("ns-1", "west", 0), *available("uid-web", "east", 1), *available("uid-web", "west", 1)}}, nil
	})
	f.clock.SetTime(start.Add(minute))
	if again := f.look().RequeueAfter; again > moveInterval {
		t.Errorf("it is looked at again after %s", again)
	}
	if got := f.placement().Spec; got.Transition.Cause != placementv1alpha1.CauseReturn || got.WentBack != nil {
		t.Errorf("%+v", got)
	}
}

func TestAUnitDoesNotReturnAtOnceToWhatItWentBackFrom(t *testing.T) {
	t.Parallel()
	const at = time.Hour
	went := func(change func(*placementv1alpha1.WentBack)) *placementv1alpha1.WentBack {
		kind, _ := workload.Builtin().Current().ByResource(deployments.GroupResource())
		w := &placementv1alpha1.WentBack{
			PhysicalClusters: []string{"west"}, At: metav1.NewTime(start.Add(at - time.Minute)), Until: metav1.NewTime(start.Add(at + time.Minute)), Times: 3, Message: "no pods",
			Policies: []placementv1alpha1.PolicyReference{{Level: placementv1alpha1.PolicyNamespace, Name: "west-first"}},
			Content:  transition.Content([]transition.Object{{Kind: kind, Logical: whole("Deployment", "uid-web", "{}", map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "a"}}}}})}}),
		}
		if change != nil {
			change(w)
		}
		return w
	}
	const held = "False WentBack: it went back from west at 2026-01-02T04:03:05Z, and is not moved there before 2026-01-02T04:05:05Z, unless policies or pod templates change, or that becomes ready anew; what was missing: no pods"
	again := &placementv1alpha1.Returned{At: metav1.NewTime(start.Add(at - 2*time.Minute)), Times: 4}
	for name, c := range map[string]struct {
		went   *placementv1alpha1.WentBack
		west   time.Duration // since when it is ready
		north  bool          // another one that is preferred
		moving string
		to     string
		times  int32 // returned
	}{
		"before the time":                       {went: went(nil), moving: held},
		"but elsewhere":                         {went: went(nil), north: true, to: "north", times: 5},
		"after the time":                        {went: went(func(w *placementv1alpha1.WentBack) { w.Until = metav1.NewTime(start.Add(at)) }), to: "west", times: 5},
		"for other policies, as the first time": {went: went(func(w *placementv1alpha1.WentBack) { w.Policies[0].Generation = 7 }), to: "west", times: 1},
		"with other pod templates, too":         {went: went(func(w *placementv1alpha1.WentBack) { w.Content = "other" }), to: "west", times: 1},
		"when it has become ready anew":         {went: went(nil), west: at - 30*time.Second, to: "west", times: 5},
		"if it went back from elsewhere":        {went: went(func(w *placementv1alpha1.WentBack) { w.PhysicalClusters[0] = "south" }), to: "west", times: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := goesBack()
			policy.Spec.Move.ReturnAfterSeconds = ptr.To[int32](10)
			p, west, now := placementOf("east"), isReady("west"), start.Add(at)
			p.Spec.WentBack, p.Spec.Returned = c.went, again
			p.Status.Awaited = &placementv1alpha1.Awaited{PhysicalClusters: []string{"west"}, Since: metav1.NewTime(start)}
			west.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(c.west))
			stored := []runtime.Object{policy, isReady("east"), west, complete(), p, deployment("web", `{"east":{}}`, 1)}
			if c.north {
				north := isReady("north")
				north.Labels["region"] = "west"
				stored = append(stored, north)
				p.Status.Awaited.PhysicalClusters = []string{"north"}
			}
			f := newFixture(t, stored...)
			f.stores(`{"east":{}}`, app(`{"east":{}}`, "a"))
			f.atoll.PrependReactor("create", "placementreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				spec := a.(clienttesting.CreateAction).GetObject().(*placementv1alpha1.PlacementReview).Spec
				status := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"east"}}
				for _, name := range []string{"west", "north"} {
					if !slices.Contains(spec.Without, name) && (name == "west" || c.north) {
						status.PhysicalClusters = []string{name}
						break
					}
				}
				return true, &placementv1alpha1.PlacementReview{Status: status}, nil
			})
			f.clock.SetTime(now)
			if c.west > 0 {
				f.clock.SetTime(now.Add(4 * time.Minute)) // as long as it waits after four returns
				c.went.Until = metav1.NewTime(now.Add(time.Hour))
			}
			f.look()
			got, to, times := f.placement(), "", int32(0)
			if t := got.Spec.Transition; t != nil {
				to, times = strings.Join(t.To, ","), got.Spec.Returned.Times
			}
			if diff := cmp.Diff([]any{c.to, c.times, c.moving}, []any{to, times, strings.TrimPrefix(f.moving(), "?")}); diff != "" {
				t.Errorf("where it moves, how often it did, and what it says (-want +got):\n%s", diff)
			}
			if c.moving != "" && got.Status.Awaited != nil {
				t.Errorf("it waits for %+v", got.Status.Awaited)
			}
		})
	}
}

// What policies want is held, too; what they cannot hold up is not.
func TestWhatAUnitWentBackFromIsNotTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	policy := goesBack()
	policy.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": "west"}}}
	for name, c := range map[string]struct {
		pin   bool
		drain bool
		want  []string // what the review is asked without
		said  string
	}{
		"a policy": {want: []string{"west"}, said: "False WentBack: it went back from west at 2026-01-02T03:04:05Z, and is not moved there before 2026-01-02T04:04:05Z, unless policies or pod templates change, or that becomes ready anew; elsewhere: no room"},
		"a pin":    {pin: true},
		"a drain":  {drain: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, n, east := placementOf("east"), complete(), isReady("east")
			p.Spec.WentBack = &placementv1alpha1.WentBack{
				PhysicalClusters: []string{"west"}, At: metav1.NewTime(start), Until: metav1.NewTime(start.Add(time.Hour)), Times: 1, Content: transition.Content(nil),
				Policies: []placementv1alpha1.PolicyReference{{Level: placementv1alpha1.PolicyNamespace, Name: "west-first"}},
			}
			if c.pin {
				n.Annotations[placementv1alpha1.PhysicalClusterAnnotation] = "west"
			}
			east.Spec.Drain.Requested = c.drain
			f := newFixture(t, policy.DeepCopy(), east, isReady("west"), n, p)
			f.stores(`{"east":{}}`)
			var without []string
			f.atoll.PrependReactor("create", "placementreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				without = a.(clienttesting.CreateAction).GetObject().(*placementv1alpha1.PlacementReview).Spec.Without
				status := placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}}
				if len(without) > 0 {
					status.PhysicalClusters, status.Message = nil, "no room"
				}
				return true, &placementv1alpha1.PlacementReview{Status: status}, nil
			})
			f.look()
			f.clock.SetTime(start.Add(settleDelay))
			f.look()
			if diff := cmp.Diff(c.want, without); diff != "" {
				t.Errorf("what it is asked without (-want +got):\n%s", diff)
			}
			if said := f.moving(); c.said != "" && said != c.said || (f.placement().Spec.Transition == nil) != (c.said != "") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// What only waits for a job to end where it was is available.
func TestAMoveThatWaitsForWhatItLeavesDoesNotGoBack(t *testing.T) {
	t.Parallel()
	n := complete()
	n.Annotations[placementv1alpha1.TargetsAnnotation] = both
	f := newFixture(t, append(copiesOnBoth(), goesBack(), isReady("east"), isReady("west"), n, onItsWay(placementv1alpha1.CauseReturn), deployment("web", both, 1))...)
	f.stores(both, app(both, "a"))
	f.Next = func(t *placementv1alpha1.Transition, _ transition.State) transition.Step {
		return transition.Step{Phase: t.Phase, Waits: []string{"a job runs"}}
	}
	f.clock.SetTime(start.Add(minute))
	f.look()
	if got := f.placement().Spec; got.Transition.Cause != placementv1alpha1.CauseReturn || got.WentBack != nil || f.moving() != "True Starting: from east to west; waits: a job runs" {
		t.Errorf("%+v; it says %q", got, f.moving())
	}
}

// What has become available somewhere may be moved there again.
func TestWhatHasArrivedIsForgotten(t *testing.T) {
	t.Parallel()
	p := onItsWay(placementv1alpha1.CauseReturn)
	p.Spec.Transition.Phase = placementv1alpha1.TransitionRemoving
	p.Spec.WentBack = &placementv1alpha1.WentBack{PhysicalClusters: []string{"north", "west"}}
	f := newFixture(t, complete(), p)
	u, ok, err := f.read(t.Context(), web)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := f.enter(t.Context(), u, transition.Step{Done: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&placementv1alpha1.WentBack{PhysicalClusters: []string{"north"}}, f.placement().Spec.WentBack); diff != "" {
		t.Errorf("what is remembered (-want +got):\n%s", diff)
	}
}
