package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func testReplace(t *testing.T) {
	ctx := newCluster(t, "replace")
	namespace(t, ctx, "web")
	client := shared.Kube.AppsV1().Deployments("web")
	stored := create(t, ctx, "web", deployment("a"))

	// What kubectl replace sends: the object as it was written at first, with
	// the defaults that the server filled in.
	sent := stored.DeepCopy()
	sent.Annotations, sent.Finalizers, sent.ManagedFields, sent.ResourceVersion = nil, nil, nil, ""
	got, err := client.Update(ctx, sent, metav1.UpdateOptions{FieldManager: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, got); diff != "" {
		t.Errorf("the update changed the object (-before +after):\n%s", diff)
	}
	patched, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"annotations":null,"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, patched); diff != "" {
		t.Errorf("the merge patch changed the object (-before +after):\n%s", diff)
	}
	status, err := client.UpdateStatus(ctx, sent, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, status); diff != "" {
		t.Errorf("the update of the status changed the object (-before +after):\n%s", diff)
	}
	if _, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatalf("scaling: %v", err)
	}
	scaled, err := client.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *scaled.Spec.Replicas != 3 || scaled.Generation != 2 || targetsOf(scaled) != targetsOf(stored) {
		t.Errorf("after scaling: %d replicas, generation %d, targets %q", *scaled.Spec.Replicas, scaled.Generation, targetsOf(scaled))
	}
}

func testApply(t *testing.T) {
	ctx := newCluster(t, "apply")
	namespace(t, ctx, "web")
	client := shared.Kube.AppsV1().Deployments("web")
	const plain = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}`
	apply := func(body string) *appsv1.Deployment {
		t.Helper()
		d, err := client.Patch(ctx, "a", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "me"})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := apply(plain)
	if targetsOf(first) == "" || first.Generation != 1 {
		t.Fatalf("targets %q, generation %d", targetsOf(first), first.Generation)
	}
	if diff := cmp.Diff(first, apply(plain)); diff != "" {
		t.Errorf("a second apply changed the object (-before +after):\n%s", diff)
	}
	// Applying it as it was read must not make the user own what the system wrote.
	asRead := strings.Replace(plain, `"metadata":{"name":"a"}`, `"metadata":{"name":"a","finalizers":["placement.atoll.dev/copies"],"annotations":{"placement.atoll.dev/targets":"{\"elsewhere\":{}}","kcp.io/cluster":"apply"}}`, 1)
	got := apply(asRead)
	if targetsOf(got) != targetsOf(first) || got.Generation != 1 {
		t.Errorf("targets %q, generation %d", targetsOf(got), got.Generation)
	}
	for _, m := range got.ManagedFields {
		if m.FieldsV1 != nil && (strings.Contains(m.FieldsV1.GetRawString(), "atoll.dev/") || strings.Contains(m.FieldsV1.GetRawString(), "kcp.io/")) {
			t.Errorf("%s owns metadata of the system: %s", m.Manager, m.FieldsV1.GetRawString())
		}
	}
	again := apply(asRead)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("applying it once more changed the object (-before +after):\n%s", diff)
	}
	if last := apply(plain); targetsOf(last) != targetsOf(first) || !slices.Contains(last.Finalizers, placementv1alpha1.CopiesFinalizer) {
		t.Errorf("leaving it out removed it: %v %v", last.Annotations, last.Finalizers)
	}
}

// templatesOf is the note of the template that a new Deployment has.
func templatesOf(t *testing.T, d *appsv1.Deployment) string {
	t.Helper()
	noted := d.Annotations[placementv1alpha1.TemplatesAnnotation]
	if noted == "" {
		t.Error("its template is not noted")
	}
	return noted
}

func testForgery(t *testing.T) {
	ctx := newCluster(t, "forgery")
	policy(t, "forgery", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "eu") })
	namespace(t, ctx, "web")
	client := shared.Kube.AppsV1().Deployments("web")
	hostile := deployment("a")
	hostile.Annotations = map[string]string{
		placementv1alpha1.TargetsAnnotation: `{"west":{}}`, "kcp.io/cluster": "other", "atoll.dev/uid": "1", "note": "mine",
		placementv1alpha1.TemplatesAnnotation: "",
	}
	hostile.Labels = map[string]string{placementv1alpha1.ManagedByLabel: "me", "app": "a"}
	hostile.Finalizers = []string{"example.com/mine"}
	stored := create(t, ctx, "web", hostile)
	want := metav1.ObjectMeta{
		Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`, "kcp.io/cluster": "forgery", "note": "mine",
			placementv1alpha1.TemplatesAnnotation: templatesOf(t, stored)},
		Labels:     map[string]string{"app": "a"},
		Finalizers: []string{"example.com/mine", placementv1alpha1.CopiesFinalizer},
	}
	check := func(what string, d *appsv1.Deployment, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		got := metav1.ObjectMeta{Annotations: d.Annotations, Labels: d.Labels, Finalizers: d.Finalizers}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("create", stored, nil)
	for _, c := range []struct {
		what  string
		kind  types.PatchType
		patch string
	}{
		{"a merge patch that forges", types.MergePatchType, `{"metadata":{"annotations":{"placement.atoll.dev/targets":"{\"west\":{}}","kcp.io/cluster":"x"}}}`},
		{"a merge patch that removes", types.MergePatchType, `{"metadata":{"annotations":{"placement.atoll.dev/targets":null,"kcp.io/cluster":null},"finalizers":["example.com/mine"]}}`},
		{"a strategic patch that removes the finalizer", types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["placement.atoll.dev/copies"]}}`},
		{"a strategic patch that adds a label", types.StrategicMergePatchType, `{"metadata":{"labels":{"atoll.dev/managed-by":"me"}}}`},
		{"a JSON patch that removes", types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations/placement.atoll.dev~1targets"},{"op":"remove","path":"/metadata/finalizers/1"}]`},
	} {
		d, err := client.Patch(ctx, "a", c.kind, []byte(c.patch), metav1.PatchOptions{})
		check(c.what, d, err)
	}
	d, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"placement.atoll.dev/targets":null}}}`), metav1.PatchOptions{}, "status")
	check("a patch of the status", d, err)
}

func testNeverPlaced(t *testing.T) {
	atRoot := scope.WithCluster(t.Context(), scope.Root)
	namespace(t, atRoot, "never")
	if d := create(t, atRoot, "never", deployment("a")); targetsOf(d) != "" {
		t.Errorf("placed in root: %v", d.Annotations)
	}
}
