package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// silent is a physical cluster that does not answer since the fixture's clock began.
func silent(name string) *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	pc.Status.Conditions = []metav1.Condition{{
		Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: fleetv1alpha1.ReasonHeartbeatLost, LastTransitionTime: metav1.NewTime(start),
	}}
	return pc
}

func TestANamespaceLeavesASilentPhysicalClusterWhenItsPolicySaysSo(t *testing.T) {
	policy := &placementv1alpha1.PlacementPolicy{ObjectMeta: owned("wait", "pp-1")}
	policy.Namespace = "web"
	policy.Spec.Tolerations = []corev1.Toleration{{
		Key: fleetv1alpha1.TaintUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](60),
	}}
	f := newFixture(t, silent("east"), policy, complete(), placementOf("east"))
	f.review = placementv1alpha1.PlacementReviewStatus{Decided: []string{"east"}, PhysicalClusters: []string{"west"}, Move: placementv1alpha1.MoveAuto}
	transition := func() *placementv1alpha1.Transition {
		p, err := f.atoll.PlacementV1alpha1().Placements("web").Get(t.Context(), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied); p.Spec.Transition == nil && (c == nil || c.Status != metav1.ConditionTrue) {
			t.Errorf("it stays, but %+v", c)
		}
		return p.Spec.Transition
	}
	began := f.clock.Now()
	// Silence from before this server could have heard of it counts from then.
	for _, step := range []struct {
		at    time.Duration
		again time.Duration
	}{{0, placement.Silence + time.Minute}, {90 * time.Second, 10 * time.Second}} {
		f.clock.SetTime(began.Add(step.at))
		if again := f.look().RequeueAfter; again != step.again {
			t.Errorf("looks again after %s, want %s", again, step.again)
		}
		if got := transition(); got != nil {
			t.Fatalf("%s after the start of the server: %+v", step.at, got)
		}
	}
	f.clock.SetTime(began.Add(placement.Silence + time.Minute))
	f.look() // others may edit policies, too
	f.clock.SetTime(f.clock.Now().Add(settleDelay))
	f.look()
	if got := transition(); got == nil || got.Cause != placementv1alpha1.CauseLost {
		t.Errorf("the transition is %+v", got)
	}
}

func TestEndpointsOfWhatIsLostEndWhenTrafficGoesElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		phase  placementv1alpha1.TransitionPhase
		silent bool
		want   string
	}{
		"the new place is not there yet": {placementv1alpha1.TransitionStarting, true, "east:true west:true"},
		"its syncer says so":             {placementv1alpha1.TransitionDraining, false, "east:true west:true"},
		"traffic is elsewhere":           {placementv1alpha1.TransitionDraining, true, "east:false west:true"},
		"it is being removed":            {placementv1alpha1.TransitionRemoving, true, "east:false west:true"},
	} {
		t.Run(name, func(t *testing.T) {
			stored := []runtime.Object{complete(), placementOf("west")}
			if c.silent {
				stored = append(stored, silent("east"))
			}
			f := newFixture(t, stored...)
			slices := f.kube.DiscoveryV1().EndpointSlices("web")
			for _, target := range []string{"east", "west"} {
				slice := &discoveryv1.EndpointSlice{ObjectMeta: owned(target, target)}
				slice.Namespace = "web"
				slice.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + target + `":{"state":"Observed"}}`}
				slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
				if _, err := slices.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			u, _, err := f.read(t.Context(), web)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time, there is nothing to do
				if err := f.withdraw(t.Context(), u, &placementv1alpha1.Transition{Phase: c.phase, From: []string{"east"}, To: []string{"west"}}); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			for _, target := range []string{"east", "west"} {
				slice, err := slices.Get(t.Context(), target, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got += fmt.Sprintf(" %s:%v", target, *slice.Endpoints[0].Conditions.Ready)
			}
			if diff := cmp.Diff(" "+c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
