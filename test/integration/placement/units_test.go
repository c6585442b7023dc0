package placement

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// until polls until nothing is wrong any more.
func until(t *testing.T, what string, wrong func() string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, waitTimeout, true, func(context.Context) (bool, error) {
		last = wrong()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s", what, last)
	}
}

// pinnedNamespace is one on a physical cluster.
func pinnedNamespace(t *testing.T, ctx context.Context, name, to string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{placementv1alpha1.PhysicalClusterAnnotation: to}}}
	if _, err := shared.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// unitPolicy makes a unit of what has the label tier, in a region.
func unitPolicy(t *testing.T, ctx context.Context, namespace, name, tier, region string) *placementv1alpha1.PlacementPolicy {
	t.Helper()
	p := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Objects = &placementv1alpha1.ObjectSelection{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}}
	p.Spec.Terms = only("region", region)
	created, err := shared.Atoll.PlacementV1alpha1().PlacementPolicies(namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating policy %s: %v", name, err)
	}
	return created
}

func stampOf(t *testing.T, ctx context.Context, namespace, name string) string {
	t.Helper()
	d, err := shared.Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stamp.TargetsOf(d.Annotations).String()
}

func unitOf(t *testing.T, ctx context.Context, namespace, unit string) *placementv1alpha1.Placement {
	t.Helper()
	p, err := shared.Atoll.PlacementV1alpha1().Placements(namespace).Get(ctx, unit, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &placementv1alpha1.Placement{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func serviceOf(name, app string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

// A policy that was just written holds for the next object, in the answer and in a dry run;
// its neighbour stays where the namespace is, and what both need is wherever one is.
func testUnitsOfObjects(t *testing.T) {
	ctx := newCluster(t, "units")
	pinnedNamespace(t, ctx, "web", "east")
	api := deployment("api")
	api.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	if got := targetsOf(create(t, ctx, "web", api)); got != "east" {
		t.Fatalf("the neighbour is on %s", got)
	}
	if _, err := shared.Kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	unitPolicy(t, ctx, "web", "front", "front", "us")
	front := deployment("front")
	front.Labels = map[string]string{"tier": "front"}
	front.Spec.Template.Spec.Containers[0].EnvFrom = api.Spec.Template.Spec.Containers[0].EnvFrom
	dry, err := shared.Kube.AppsV1().Deployments("web").Create(ctx, front.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || targetsOf(dry) != "west" {
		t.Fatalf("a dry run: on %s, error %v", targetsOf(dry), err)
	}
	if p := unitOf(t, ctx, "web", "front"); p.UID != "" {
		t.Fatalf("a dry run has stored %+v", p.Spec)
	}
	if got := targetsOf(create(t, ctx, "web", front)); got != "west" {
		t.Fatalf("what the policy selects is on %s", got)
	}
	if p := unitOf(t, ctx, "web", "front"); strings.Join(stamp.Decided(p).Names(), ",") != "west" || len(p.Spec.Decision.Policies) == 0 {
		t.Errorf("the unit is %+v", p.Spec)
	}
	if p := placementOf(t, ctx, "web"); strings.Join(stamp.Decided(p).Names(), ",") != "east" || p.Spec.Transition != nil {
		t.Errorf("the namespace is %+v", p.Spec)
	}
	for app, want := range map[string]string{"api": "east", "front": "west", "nobody": "east"} {
		s, err := shared.Kube.CoreV1().Services("web").Create(ctx, serviceOf(app, app), metav1.CreateOptions{})
		if err != nil || targetsOf(s) != want {
			t.Errorf("the Service of %s is on %s, want %s (error %v)", app, targetsOf(s), want, err)
		}
	}
	until(t, "what both refer to", func() string {
		m, err := shared.Kube.CoreV1().ConfigMaps("web").Get(ctx, "settings", metav1.GetOptions{})
		if err != nil || targetsOf(m) != "east,west" {
			return fmt.Sprint(targetsOf(m), err)
		}
		return ""
	})
	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil || targetsOf(ns) != "east,west" {
		t.Errorf("the Namespace is on %s (error %v)", targetsOf(ns), err)
	}
	// The Service of what comes later follows when that is there.
	later := deployment("nobody")
	later.Labels = map[string]string{"tier": "front"}
	create(t, ctx, "web", later)
	until(t, "a Service of what came later", func() string {
		s, err := shared.Kube.CoreV1().Services("web").Get(ctx, "nobody", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got := stamp.TargetsOf(s.Annotations).String(); got != `{"east":{},"west":{"state":"Starting"}}` {
			return got
		}
		return ""
	})
}

// An object that changes its labels is stamped by its new unit in the same write, and keeps
// what it has until that is left in a transition.
func testChangeOfUnit(t *testing.T) {
	ctx := newCluster(t, "relabelled")
	pinnedNamespace(t, ctx, "web", "east")
	unitPolicy(t, ctx, "web", "front", "front", "us")
	for _, name := range []string{"a", "b"} {
		d := deployment(name)
		if name == "b" {
			d.Labels = map[string]string{"tier": "front"}
		}
		create(t, ctx, "web", d)
	}
	client, warned := warningClient(t)
	patch := []byte(`{"metadata":{"labels":{"tier":"front"}}}`)
	until(t, "a dry run, once the server has seen the decision for the unit", func() string {
		d, err := client.AppsV1().Deployments("web").Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || targetsOf(d) != "east,west" {
			return fmt.Sprint(targetsOf(d), err)
		}
		return ""
	})
	d, err := client.AppsV1().Deployments("web").Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil || stamp.TargetsOf(d.Annotations).String() != `{"east":{},"west":{}}` {
		t.Fatalf("it is on %s (error %v)", targetsOf(d), err)
	}
	if want := "it belongs to what policy front of namespace web selects, and moves from east to west"; !strings.Contains(warned.text(), want) {
		t.Errorf("warned %q, want %q", warned.text(), want)
	}
	until(t, "what it has left", func() string {
		p := unitOf(t, ctx, "web", "front")
		if tr := p.Spec.Transition; tr == nil || tr.Cause != placementv1alpha1.CauseLeftover || strings.Join(tr.From, ",") != "east" || tr.Phase != placementv1alpha1.TransitionStarting {
			return fmt.Sprintf("%+v", tr)
		}
		return ""
	})
	if got := stampOf(t, ctx, "web", "b"); got != `{"west":{}}` {
		t.Errorf("its neighbour went to %s", got)
	}
	// Nobody has reported a copy in the west: nothing may go.
	if got := stampOf(t, ctx, "web", "a"); got != `{"east":{},"west":{}}` {
		t.Errorf("it is %s before it is available", got)
	}
	// Two policies: the first by name counts, and both are named.
	unitPolicy(t, ctx, "web", "also", "front", "eu")
	until(t, "the policies", func() string {
		c := meta.FindStatusCondition(unitOf(t, ctx, "web", "also").Status.Conditions, placementv1alpha1.ConditionContested)
		if c == nil || c.Message != "Deployment a is selected by front, too; Deployment b is selected by front, too" {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}

// A policy for what runs begins where that runs, and then moves it; one that goes gives its
// objects back. No copy is removed, as nobody reports another one.
func testPolicyOverWhatRuns(t *testing.T) {
	ctx := newCluster(t, "adopted")
	pinnedNamespace(t, ctx, "web", "east")
	for _, name := range []string{"a", "b"} {
		d := deployment(name)
		d.Labels = map[string]string{"tier": name}
		create(t, ctx, "web", d)
	}
	policy := unitPolicy(t, ctx, "web", "front", "a", "us")
	until(t, "the unit", func() string {
		tr := unitOf(t, ctx, "web", "front").Spec.Transition
		if tr == nil || tr.Cause != placementv1alpha1.CausePolicy || strings.Join(tr.From, ",") != "east" || strings.Join(tr.To, ",") != "west" {
			return fmt.Sprintf("%+v", tr)
		}
		return ""
	})
	until(t, "its object", func() string { return differs(stampOf(t, ctx, "web", "a"), `{"east":{},"west":{}}`) })
	review := &placementv1alpha1.PlacementReview{}
	review.Spec.Unit = "front"
	answer, err := shared.Atoll.PlacementV1alpha1().PlacementReviews("web").Create(ctx, review, metav1.CreateOptions{})
	if err != nil || strings.Join(answer.Status.PhysicalClusters, ",") != "west" || answer.Status.Unit != "front" {
		t.Errorf("a review of the unit: %+v, error %v", answer.Status, err)
	}
	review.Spec = placementv1alpha1.PlacementReviewSpec{Object: &runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","labels":{"tier":"a"}},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}}}`)}}
	if answer, err = shared.Atoll.PlacementV1alpha1().PlacementReviews("web").Create(ctx, review, metav1.CreateOptions{}); err != nil || answer.Status.Unit != "front" {
		t.Errorf("a review of an object: %+v, error %v", answer.Status, err)
	}
	review.Spec = placementv1alpha1.PlacementReviewSpec{Unit: "gone"}
	if _, err = shared.Atoll.PlacementV1alpha1().PlacementReviews("web").Create(ctx, review, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.unit") {
		t.Errorf("a review of a unit that is not there: %v", err)
	}
	if err := shared.Atoll.PlacementV1alpha1().PlacementPolicies("web").Delete(ctx, policy.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the placement of the unit", func() string {
		if p := unitOf(t, ctx, "web", "front"); p.UID != "" {
			return "it is there"
		}
		return ""
	})
	until(t, "the namespace", func() string {
		tr := placementOf(t, ctx, "web").Spec.Transition
		if tr == nil || tr.Cause != placementv1alpha1.CauseLeftover || strings.Join(tr.From, ",") != "west" {
			return fmt.Sprintf("%+v", tr)
		}
		return ""
	})
	if got := stampOf(t, ctx, "web", "b"); got != `{"east":{}}` {
		t.Errorf("its neighbour went to %s", got)
	}
	if got := stampOf(t, ctx, "web", "a"); !strings.Contains(got, `"east":{}`) {
		t.Errorf("it is %s", got)
	}
}

// What must not run twice, and what cannot move, in an object that changes its unit.
func testChangeOfUnitIsBlocked(t *testing.T) {
	ctx := newCluster(t, "unit-blocked")
	pinnedNamespace(t, ctx, "web", "east")
	unitPolicy(t, ctx, "web", "front", "front", "us")
	d := deployment("front")
	d.Labels = map[string]string{"tier": "front"}
	create(t, ctx, "web", d)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shell"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}
	if _, err := shared.Kube.CoreV1().Pods("web").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kube.CoreV1().Pods("web").Patch(ctx, "shell", types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"front"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the stamp of the pod", func() string {
		p, err := shared.Kube.CoreV1().Pods("web").Get(ctx, "shell", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return differs(stamp.TargetsOf(p.Annotations).String(), `{"east":{},"west":{"state":"Finished"}}`)
	})
	until(t, "the pod", func() string {
		c := meta.FindStatusCondition(unitOf(t, ctx, "web", "front").Status.Conditions, placementv1alpha1.ConditionMoving)
		if c == nil || c.Reason != "Blocked" || !strings.Contains(c.Message, "Pod shell on east") {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
}

// The pin of a unit is on its policy; that of the namespace is for the rest.
func testPinOfAUnit(t *testing.T) {
	ctx := newCluster(t, "pinned-unit")
	pinnedNamespace(t, ctx, "web", "east")
	policies := shared.Atoll.PlacementV1alpha1().PlacementPolicies("web")
	p := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "front", Annotations: map[string]string{placementv1alpha1.PhysicalClusterAnnotation: "west"}}}
	if _, err := policies.Create(ctx, p, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "annotate the namespace") {
		t.Errorf("a pin of a policy that makes no unit: %v", err)
	}
	p.Spec.Objects = &placementv1alpha1.ObjectSelection{Kinds: []placementv1alpha1.ObjectKind{{Group: "apps", Kind: "Deployment"}}, Names: []string{"front"}}
	if _, err := policies.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"front": "west", "api": "east"} {
		if got := targetsOf(create(t, ctx, "web", deployment(name))); got != want {
			t.Errorf("%s is on %s, want %s", name, got, want)
		}
	}
	patch := []byte(`{"metadata":{"annotations":{"placement.atoll.dev/cluster":"east"}}}`)
	if _, err := policies.Patch(ctx, "front", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the move", func() string {
		tr := unitOf(t, ctx, "web", "front").Spec.Transition
		if tr == nil || tr.Cause != placementv1alpha1.CausePinned || strings.Join(tr.To, ",") != "east" {
			return fmt.Sprintf("%+v", tr)
		}
		return ""
	})
	if tr := placementOf(t, ctx, "web").Spec.Transition; tr != nil {
		t.Errorf("the namespace moves, too: %+v", tr)
	}
	for field, o := range map[string]*placementv1alpha1.ObjectSelection{
		"spec.objects: Required":           {},
		"spec.objects.kinds[0].kind":       {Kinds: []placementv1alpha1.ObjectKind{{Group: "apps"}}},
		"spec.objects.names[0]":            {Names: []string{"No Name"}},
		"spec.objects.labelSelector.match": {LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}},
	} {
		bad := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
		bad.Spec.Objects = o
		if _, err := policies.Create(ctx, bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func differs(got, want string) string {
	if got == want {
		return ""
	}
	return got
}
