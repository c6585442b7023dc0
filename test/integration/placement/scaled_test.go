package placement

import (
	"context"
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// What Copies say that runs where a unit leaves is what is started where it goes, and what the move
// waits for, as it changes.
func testScaled(t *testing.T) {
	ctx := newCluster(t, "scaled")
	ns := namespace(t, ctx, "web")
	pin := func(to string) {
		t.Helper()
		pinTo(t, ctx, fmt.Sprintf("%q", to))
	}
	pin("east")
	d := deployment("a")
	d.Spec.Replicas = ptr.To[int32](3)
	d = create(t, ctx, "web", d)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "load"}}
	scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = ptr.To[int32](2), 24
	scalers := shared.Kube.AutoscalingV2().HorizontalPodAutoscalers("web")
	scaler, err := scalers.Create(ctx, scaler, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	says := func(target string, object placementv1alpha1.ObjectReference, observed string) {
		t.Helper()
		reported(t, ctx, "web", target, object, placementv1alpha1.CopySynced, observed)
	}
	runs := func(target string, n int) {
		t.Helper()
		says(target, placementv1alpha1.ObjectReference{Name: "a", UID: d.UID}, fmt.Sprintf(`{"replicas":%d,"availableReplicas":%d}`, n, n))
	}
	are := func(deploymentTargets, scalerTargets string) {
		t.Helper()
		server.Eventually(t, waitTimeout, "the targets are "+deploymentTargets+" and "+scalerTargets, func() error {
			o, err := shared.Kube.AppsV1().Deployments("web").Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			s, err := scalers.Get(ctx, "load", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := expect("the Deployment's", deploymentTargets, o.Annotations[placementv1alpha1.TargetsAnnotation]); err != nil {
				return err
			}
			return expect("the autoscaler's", scalerTargets, s.Annotations[placementv1alpha1.TargetsAnnotation])
		})
	}
	waits := func(why string) {
		t.Helper()
		server.Eventually(t, waitTimeout, "the move says "+why, func() error {
			c := meta.FindStatusCondition(placementOf(t, ctx, "web").Status.Conditions, placementv1alpha1.ConditionMoving)
			if c == nil || !strings.Contains(c.Message, why) {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
	}
	wants := func(n int32) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
		if _, err := shared.Kube.AppsV1().Deployments("web").Patch(ctx, "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	runs("east", 20)
	are(`{"east":{}}`, `{"east":{}}`)
	pin("west")
	are(`{"east":{},"west":{"start":{"replicas":20,"wish":3}}}`, `{"east":{},"west":{"state":"Waiting"}}`)
	runs("west", 3)
	waits("Deployment a on west: 3 of 20 pods are available")
	runs("east", 22)
	are(`{"east":{},"west":{"start":{"replicas":22,"wish":3}}}`, `{"east":{},"west":{"state":"Waiting"}}`)
	runs("east", 40) // more than the autoscaler permits
	are(`{"east":{},"west":{"start":{"replicas":24,"wish":3}}}`, `{"east":{},"west":{"state":"Waiting"}}`)
	wants(5)
	are(`{"east":{},"west":{"start":{"replicas":24,"wish":5}}}`, `{"east":{},"west":{"state":"Waiting"}}`)
	runs("west", 10)
	waits("Deployment a on west: 10 of 24 pods are available")

	// Fewer run by now: what is there is enough, and nothing is taken back.
	runs("east", 4)
	for _, target := range []string{"east", "west"} {
		says(target, placementv1alpha1.ObjectReference{Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: "web", UID: ns.UID}, `{}`)
	}
	// The autoscaler comes with the traffic: it is waited for, and sends no traffic back.
	are(`{"east":{},"west":{"start":{"replicas":24,"wish":5}}}`, `{"east":{},"west":{}}`)
	waits("HorizontalPodAutoscaler load on west: there is no copy yet")
	if p := placementOf(t, ctx, "web"); p.Spec.Transition == nil || p.Spec.Transition.Phase != placementv1alpha1.TransitionDraining {
		t.Errorf("the transition is %+v", p.Spec.Transition)
	}
	says("west", placementv1alpha1.ObjectReference{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Name: "load", UID: scaler.UID}, `{}`)
	are(`{"east":{"state":"Removing"},"west":{"start":{"replicas":24,"wish":5}}}`, `{"east":{"state":"Removing"},"west":{}}`)
}

// reported has the syncer of a physical cluster record an object; without a kind, a Deployment.
func reported(t *testing.T, ctx context.Context, namespace, target string, object placementv1alpha1.ObjectReference, state placementv1alpha1.CopyState, observed string) {
	t.Helper()
	_, atoll := syncerClients(t, target)
	copies, on := atoll.PlacementV1alpha1().Copies(namespace), scope.WithTarget(ctx, target)
	c := aCopy(target, object.Name)
	if object.Kind != "" {
		c.Spec.Object = object
	}
	c.Spec.Object.UID = object.UID
	server.Eventually(t, waitTimeout, "the Copy on "+target+" is written", func() error {
		was, err := copies.Get(on, c.Name, metav1.GetOptions{})
		if err != nil {
			if was, err = copies.Create(on, c, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		was.Status.State, was.Status.PhysicalNamespace = state, physicalNamespaceOf(t, ctx, namespace)
		was.Status.AppliedGeneration, was.Status.ObservedGeneration = 9, 9
		was.Status.Observed = &runtime.RawExtension{Raw: []byte(observed)}
		_, err = copies.Update(on, was, metav1.UpdateOptions{})
		return err
	})
}
