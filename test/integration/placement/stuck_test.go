package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// stuckTimeout is longer than a server takes to believe that it has heard of all that is available.
const stuckTimeout = 3 * time.Minute

// A unit returns to what its policy prefers, where nothing becomes available; goes back; and stays,
// until its pod template is another.
func testStuck(t *testing.T) {
	const here, there = "x-stuck-here", "x-stuck-there"
	ctx := newCluster(t, "stuck")
	register(t, here, map[string]string{"stuck": "yes", "site": "cloud"}, ownTaint)
	register(t, there, map[string]string{"stuck": "yes", "site": "own"}, ownTaint)
	beat(t, here, there)
	policy(t, "stuck", func(s *placementv1alpha1.PolicySpec) {
		s.Terms, s.Preferences = only("stuck", "yes"), only("site", "own")
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
		s.Move = &placementv1alpha1.MoveRules{
			Return: placementv1alpha1.ReturnWhenPreferred, ReturnAfterSeconds: ptr.To[int32](10),
			IfStuck: placementv1alpha1.IfStuckGoBack, StuckAfterSeconds: ptr.To[int32](1),
		}
	})
	ns := namespace(t, ctx, "web")
	pinTo(t, ctx, fmt.Sprintf("%q", here))
	d := create(t, ctx, "web", deployment("a"))
	app := placementv1alpha1.ObjectReference{Name: "a", UID: d.UID}
	whole := placementv1alpha1.ObjectReference{Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: "web", UID: ns.UID}
	reported(t, ctx, "web", here, whole, placementv1alpha1.CopySynced, `{}`)
	reported(t, ctx, "web", here, app, placementv1alpha1.CopySynced, `{"replicas":1,"availableReplicas":1}`)
	pinTo(t, ctx, "null")

	server.Eventually(t, stuckTimeout, "it returns, is stuck, and goes back", func() error {
		p := placementOf(t, ctx, "web")
		if p.Spec.WentBack == nil {
			return fmt.Errorf("decided for %v, %+v, %+v", p.Spec.Decision.PhysicalClusters, p.Spec.Transition, meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving))
		}
		return expect("where it is", here, p.Spec.Decision.PhysicalClusters[0].Name)
	})
	w := placementOf(t, ctx, "web").Spec.WentBack
	if !slices.Equal(w.PhysicalClusters, []string{there}) || w.Times != 1 || w.Until.Sub(w.At.Time) != 5*time.Minute || !strings.Contains(w.Message, "Deployment a on "+there) {
		t.Errorf("it remembers %+v", w)
	}
	server.Eventually(t, waitTimeout, "an event says so", func() error {
		events, err := shared.Kube.CoreV1().Events("web").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == placementv1alpha1.ReasonWentBack && strings.HasPrefix(e.Message, "goes back from "+there+" to "+here)
		}) {
			return fmt.Errorf("%d other events", len(events.Items))
		}
		return nil
	})

	// What was begun there is removed as ever: upon the word of the syncer.
	server.Eventually(t, waitTimeout, "what was begun there is removed", func() error {
		o, err := shared.Kube.AppsV1().Deployments("web").Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("the targets", `{"x-stuck-here":{},"x-stuck-there":{"state":"Removing"}}`, o.Annotations[placementv1alpha1.TargetsAnnotation])
	})
	reported(t, ctx, "web", there, app, placementv1alpha1.CopyRemoved, `{}`)
	reported(t, ctx, "web", there, whole, placementv1alpha1.CopyRemoved, `{}`)
	says := func(reason string) {
		t.Helper()
		server.Eventually(t, time.Minute, "it says "+reason, func() error {
			p := placementOf(t, ctx, "web")
			c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
			if c == nil || c.Reason != reason || p.Spec.Transition != nil {
				return fmt.Errorf("%+v, %+v", c, p.Spec.Transition)
			}
			return expect("where it is", here, p.Spec.Decision.PhysicalClusters[0].Name)
		})
	}
	says(placementv1alpha1.ReasonWentBack)

	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}}}`
	if _, err := shared.Kube.AppsV1().Deployments("web").Patch(ctx, "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	says(placementv1alpha1.ReasonWaitsToReturn)
}

// pinTo changes the pin of the Namespace web to a JSON value.
func pinTo(t *testing.T, ctx context.Context, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, placementv1alpha1.PhysicalClusterAnnotation, value)
	if _, err := shared.Kube.CoreV1().Namespaces().Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A unit whose replicas are divided returns to what its policy prefers, with one of its two parts, and
// goes back with it: nobody has given up anything meanwhile.
func testStuckPart(t *testing.T) {
	const stays, here, there = "x-part-stays", "x-part-here", "x-part-there"
	ctx := newCluster(t, "stuck-part")
	register(t, stays, map[string]string{"part": "yes", "site": "own"}, ownTaint)
	register(t, here, map[string]string{"part": "yes", "site": "cloud"}, ownTaint)
	policy(t, "stuck-part", func(s *placementv1alpha1.PolicySpec) {
		s.Terms, s.Preferences = only("part", "yes"), only("site", "own")
		s.Count, s.Replicas = ptr.To[int32](2), &placementv1alpha1.ReplicaRules{Mode: placementv1alpha1.ReplicasDivide}
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
		s.Move = &placementv1alpha1.MoveRules{
			Return: placementv1alpha1.ReturnWhenPreferred, ReturnAfterSeconds: ptr.To[int32](10),
			IfStuck: placementv1alpha1.IfStuckGoBack, StuckAfterSeconds: ptr.To[int32](1),
		}
	})
	ns := namespace(t, ctx, "web")
	asked := deployment("a")
	asked.Spec.Replicas = ptr.To[int32](4)
	d := create(t, ctx, "web", asked)
	app := placementv1alpha1.ObjectReference{Name: "a", UID: d.UID}
	whole := placementv1alpha1.ObjectReference{Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: "web", UID: ns.UID}
	for _, on := range []string{stays, here} {
		reported(t, ctx, "web", on, whole, placementv1alpha1.CopySynced, `{}`)
		reported(t, ctx, "web", on, app, placementv1alpha1.CopySynced, `{"replicas":2,"availableReplicas":2}`)
	}
	register(t, there, map[string]string{"part": "yes", "site": "own"}, ownTaint)
	beat(t, stays, here, there)

	server.Eventually(t, stuckTimeout, "it returns, is stuck, and goes back", func() error {
		p := placementOf(t, ctx, "web")
		if p.Spec.WentBack == nil {
			return fmt.Errorf("decided for %v, %+v, %+v", p.Spec.Decision.PhysicalClusters, p.Spec.Transition, meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving))
		}
		if w := p.Spec.WentBack; !slices.Equal(w.PhysicalClusters, []string{there}) {
			return fmt.Errorf("it remembers %+v", w)
		}
		if division := p.Spec.Decision.Division; division == nil || len(division.Targets) != 2 {
			return fmt.Errorf("divided by %+v", division)
		}
		return nil
	})
	server.Eventually(t, waitTimeout, "both have the parts that they had", func() error {
		o, err := shared.Kube.AppsV1().Deployments("web").Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("the targets", `{"x-part-here":{"replicas":2},"x-part-stays":{"replicas":2},"x-part-there":{"state":"Removing"}}`, o.Annotations[placementv1alpha1.TargetsAnnotation])
	})
}
