package admission

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/admission/history"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var rollouts = workload.Kind{
	GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rollout"}, Resource: "rollouts",
	Role: workload.Placed, Declared: true, PodTemplate: []string{"spec", "template"},
}

func rollout(image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Rollout", "metadata": map[string]any{"name": "r", "namespace": "web", "uid": "rollout"},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "a"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}},
		}},
	}}
}

func imaged(image string) core.PodTemplateSpec {
	template := core.PodTemplateSpec{Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: image}}}}
	template.Labels = map[string]string{"app": "a"}
	return template
}

func templateRequest(t *testing.T, syncer string, gvr schema.GroupVersionResource, obj, old runtime.Object) *request {
	t.Helper()
	kinds, err := workload.Builtin().With(rollouts)
	if err != nil {
		t.Fatal(err)
	}
	op := admission.Create
	if old != nil {
		op = admission.Update
	}
	r := &request{cluster: "shop", syncer: syncer, kinds: kinds, obj: obj.(metav1.Object),
		Attributes: admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, "web", "x", gvr, "", op, nil, false, alice)}
	if old != nil {
		r.old = old.(metav1.Object)
	}
	return r
}

var (
	replicaSets = appsv1.SchemeGroupVersion.WithResource("replicasets")
	revisions   = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
)

// ownersOf has what may have a history.
func ownersOf(t *testing.T, owners ...runtime.Object) *dynamicfake.FakeDynamicClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{rollouts.GroupVersion().WithResource("rollouts"): "RolloutList"}, owners...)
}

// A namespace may have thousands of Deployments, and each has a ReplicaSet mirrored.
func TestTheOwnerOfATemplateIsReadAloneIfItIsWhereItsReferenceSays(t *testing.T) {
	t.Parallel()
	deployment := func(name, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "web", UID: types.UID("uid of " + name)}}
		d.Spec.Template.Labels = map[string]string{"app": "a"}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
		return d
	}
	for name, c := range map[string]struct {
		owner metav1.OwnerReference
		image string
		want  string
		lists int
	}{
		"as it says":                    {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "uid of d"}, "now", "now", 0},
		"as it says, planted":           {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "uid of d"}, "evil", "now", 0},
		"of a version that is not read": {metav1.OwnerReference{APIVersion: "apps/v1beta1", Kind: "Deployment", Name: "d", UID: "uid of d"}, "now", "now", 0},
		"the UID is another one's":      {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "uid of e"}, "now", "other", 1},
		"the name is nobody's":          {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "x", UID: "uid of d"}, "evil", "now", 1},
		"the kind is none that has any": {metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "d", UID: "uid of d"}, "evil", "now", 1},
		"the version cannot be read":    {metav1.OwnerReference{APIVersion: "a/b/c", Kind: "Deployment", Name: "d", UID: "uid of d"}, "evil", "now", 1},
	} {
		client := ownersOf(t, deployment("d", "now"), deployment("e", "other"))
		mirrored := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", OwnerReferences: []metav1.OwnerReference{c.owner}}, Spec: apps.ReplicaSetSpec{Template: imaged(c.image)}}
		if err := (&plugin{lookup: &lookup{dynamic: client}}).templates(t.Context(), templateRequest(t, "east", replicaSets, mirrored, nil)); err != nil {
			t.Fatal(err)
		}
		lists := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "list" {
				lists++
			}
		}
		if got := mirrored.Spec.Template.Spec.Containers[0].Image; got != c.want || lists != c.lists {
			t.Errorf("%s: image %q, want %q; %d lists, want %d", name, got, c.want, lists, c.lists)
		}
	}
}

// kubectl rolls back to what an object controls. That something else owns it, too, is no reason to believe a template.
func TestATemplateOfAnotherOwnerIsNotMirroredForTheController(t *testing.T) {
	t.Parallel()
	var owners []runtime.Object
	var refs []metav1.OwnerReference
	for _, name := range []string{"a", "b"} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "web", UID: types.UID(name)}}
		d.Spec.Template.Labels = map[string]string{"app": "a"}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "of " + name}}
		owners = append(owners, d)
		refs = append(refs, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: d.UID})
	}
	for _, controller := range []int{0, 1} {
		mirrored := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web", OwnerReferences: slices.Clone(refs)}, Spec: apps.ReplicaSetSpec{Template: imaged("of " + refs[1-controller].Name)}}
		mirrored.OwnerReferences[controller].Controller = ptr.To(true)
		if err := (&plugin{lookup: &lookup{dynamic: ownersOf(t, owners...)}}).templates(t.Context(), templateRequest(t, "east", replicaSets, mirrored, nil)); err != nil {
			t.Fatal(err)
		}
		if got, want := mirrored.Spec.Template.Spec.Containers[0].Image, "of "+refs[controller].Name; got != want {
			t.Errorf("image %q, want %q", got, want)
		}
	}
}

// What a syncer mirrors as history was written by a user, whatever owns it.
func TestNoTemplateIsMirroredThatNoOwnerHas(t *testing.T) {
	t.Parallel()
	noted := rollout("old")
	if err := (&plugin{}).templates(t.Context(), templateRequest(t, "", rollouts.GroupVersion().WithResource("rollouts"), noted, nil)); err != nil {
		t.Fatal(err)
	}
	now := rollout("now")
	now.SetAnnotations(noted.GetAnnotations())
	if err := (&plugin{}).templates(t.Context(), templateRequest(t, "", rollouts.GroupVersion().WithResource("rollouts"), now, noted)); err != nil {
		t.Fatal(err)
	}
	before := rollout("unnoted") // from a version that noted none
	before.SetUID("before")
	before.SetName("before")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "web", UID: "deployment"}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "now"}}
	p := &plugin{lookup: &lookup{dynamic: ownersOf(t, now, before, deployment)}}
	for name, c := range map[string]struct {
		owner  types.UID
		image  string
		before string // what is stored, if anything is
		want   string
	}{
		"of a custom kind, as it is":               {owner: "rollout", image: "now", want: "now"},
		"of a custom kind, as it was":              {owner: "rollout", image: "old", want: "old"},
		"of a custom kind, planted":                {owner: "rollout", image: "evil", want: "now"},
		"of a custom kind that has no note":        {owner: "before", image: "unnoted", want: "unnoted"},
		"of a custom kind that has no note, evil":  {owner: "before", image: "evil", want: "unnoted"},
		"of a Deployment, planted":                 {owner: "deployment", image: "evil", want: "now"},
		"of nobody":                                {image: "evil", want: stripped},
		"of nobody, as it was":                     {image: "adopted", before: "adopted", want: "adopted"},
		"of nobody, changed":                       {image: "evil", before: "adopted", want: stripped},
		"of somebody who does not exist":           {owner: "forged", image: "evil", want: stripped},
		"of somebody who does not exist, as it is": {owner: "forged", image: "a", before: "a", want: "a"},
	} {
		set := func(image string) *apps.ReplicaSet {
			s := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}, Spec: apps.ReplicaSetSpec{Template: imaged(image)}}
			s.Spec.Template.Labels["rollouts-pod-template-hash"] = "1"
			if c.owner != "" {
				s.OwnerReferences = []metav1.OwnerReference{{Kind: "Any", Name: "any", UID: c.owner}}
			}
			return s
		}
		mirrored, old := set(c.image), runtime.Object(nil)
		if c.before != "" {
			old = set(c.before)
		}
		if err := p.templates(t.Context(), templateRequest(t, "east", replicaSets, mirrored, old)); err != nil {
			t.Fatal(err)
		}
		template := mirrored.Spec.Template
		if got := template.Spec.Containers[0].Image; len(template.Spec.Containers) != 1 || got != c.want || template.Labels["rollouts-pod-template-hash"] != "1" {
			t.Errorf("a ReplicaSet %s: image %q, labels %v, want %q", name, got, template.Labels, c.want)
		}
	}
}

func TestNoRevisionIsMirroredThatNoOwnerHas(t *testing.T) {
	t.Parallel()
	p := &plugin{lookup: &lookup{dynamic: ownersOf(t, rollout("now"))}}
	data := func(image string) []byte {
		raw, err := history.Revision(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, c := range map[string]struct {
		owner types.UID
		data  []byte
		want  string
	}{
		"of a custom kind":                         {owner: "rollout", data: data("now"), want: "now"},
		"of a custom kind, planted":                {owner: "rollout", data: data("evil"), want: "now"},
		"of a custom kind, and no template at all": {owner: "rollout", data: []byte(`{"anything":"evil"}`), want: "now"},
		"of nobody":                                {data: data("evil")},
		"of somebody who is not there":             {owner: "forged", data: data("evil")},
		"of nobody, and no template":               {data: []byte(`{"metadata":{"finalizers":["evil"]}}`)},
	} {
		mirrored := &apps.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}, Data: runtime.RawExtension{Raw: c.data}}
		if c.owner != "" {
			mirrored.OwnerReferences = []metav1.OwnerReference{{Kind: "Any", Name: "any", UID: c.owner}}
		}
		if err := p.templates(t.Context(), templateRequest(t, "east", revisions, mirrored, nil)); err != nil {
			t.Fatal(err)
		}
		template, ok := history.OfRevision(mirrored.Data.Raw)
		switch {
		case c.want == "" && string(mirrored.Data.Raw) != "{}":
			t.Errorf("%s: %s", name, mirrored.Data.Raw)
		case c.want != "" && (!ok || template.Spec.Containers[0].Image != c.want):
			t.Errorf("%s: %s, want %q", name, mirrored.Data.Raw, c.want)
		}
		if !json.Valid(mirrored.Data.Raw) {
			t.Errorf("%s: %s", name, mirrored.Data.Raw)
		}
	}
}
