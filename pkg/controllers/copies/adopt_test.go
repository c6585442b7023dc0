package copies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestASyncerIsNotBelievedThatSomethingWasAdopted(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "ReplicaSet"})
	deployments, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	claimed := func() *placementv1alpha1.Copy {
		c := recording(aCopy("east", "u", placementv1alpha1.CopyPending), "p")
		c.Status.Controller = &placementv1alpha1.ObjectReference{Group: "apps", Kind: "Deployment", Name: "web", UID: "d"}
		return c
	}
	controller := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "uid": "d", "annotations": map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{}}`}},
			"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
		}}
	}
	labelled := func() metav1.Object {
		obj := anObject(`{"east":{}}`, false)
		obj.SetLabels(map[string]string{"app": "web"})
		obj.SetOwnerReferences([]metav1.OwnerReference{{UID: "x"}})
		return obj
	}
	want := Adoption{
		Targets: placementv1alpha1.Targets{"east": {State: "Observed", UID: "p", Adopted: true}},
		Owners: []metav1.OwnerReference{{UID: "x"}, {
			APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	got, ok := Adopt(kind, labelled(), claimed(), deployments, controller())
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v (-want +got)\n%s", ok, diff)
	}
	for name, edit := range map[string]func(obj metav1.Object, c *placementv1alpha1.Copy, controller *unstructured.Unstructured){
		"another controller of the name": func(_ metav1.Object, _ *placementv1alpha1.Copy, d *unstructured.Unstructured) { d.SetUID("e") },
		"labels that it does not select": func(o metav1.Object, _ *placementv1alpha1.Copy, _ *unstructured.Unstructured) { o.SetLabels(nil) },
		"a syncer of another target": func(_ metav1.Object, c *placementv1alpha1.Copy, _ *unstructured.Unstructured) {
			c.Spec.PhysicalCluster = "west"
		},
		"a kind that adopts nothing": func(_ metav1.Object, _ *placementv1alpha1.Copy, d *unstructured.Unstructured) {
			d.SetKind("ReplicaSet")
		},
	} {
		obj, c, d := labelled(), claimed(), controller()
		edit(obj, c, d)
		if _, ok := Adopt(kind, obj, c, deployments, d); ok {
			t.Errorf("%s: adopted", name)
		}
	}
}

func TestAClaimIsAboutTheObjectThatIsThere(t *testing.T) {
	obj := anObject(`{"east":{}}`, false)
	claims := func(c *placementv1alpha1.Copy) *placementv1alpha1.Copy {
		c.Status.Controller = &placementv1alpha1.ObjectReference{UID: "d"}
		return c
	}
	for name, c := range map[string]*placementv1alpha1.Copy{
		"of its predecessor":  claims(recording(aCopy("east", "before", placementv1alpha1.CopyPending), "p")),
		"of what is not made": claims(aCopy("east", "u", placementv1alpha1.CopyPending)),
		"of what is removed":  claims(recording(aCopy("east", "u", placementv1alpha1.CopyRemoved), "p")),
		"none":                recording(aCopy("east", "u", placementv1alpha1.CopySynced), "p"),
	} {
		if Claim(obj, []*placementv1alpha1.Copy{c}) != nil {
			t.Errorf("a claim %s is believed", name)
		}
	}
}
