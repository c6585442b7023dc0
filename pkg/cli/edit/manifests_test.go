package edit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// read are the objects of one file, each in YAML.
func read(t *testing.T, texts ...string) []ReadObject {
	t.Helper()
	var out []ReadObject
	for _, text := range texts {
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatal(err)
		}
		out = append(out, ReadObject{Object: &unstructured.Unstructured{Object: content}, Source: "addon.yaml"})
	}
	return out
}

func TestAManifestCarriesWhatWasWritten(t *testing.T) {
	const plain = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}, data: {k: v}}"
	inWeb := Manifests{Namespace: "addons"}
	for _, c := range []struct {
		what  string
		how   Manifests
		given string
		// metadata and spec of the Manifest, but for the name and namespace.
		labels, spec string
	}{
		{"as it is", inWeb, plain, "{}", "object: " + plain},
		{"it does not say whose it was any more", inWeb,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, uid: u, resourceVersion: "1", generation: 2, creationTimestamp: "2026-01-01T00:00:00Z",
			managedFields: [{manager: m}], ownerReferences: [{name: o}], selfLink: /a, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 1,
			annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}, data: {k: v}, status: {phase: x}}`, "{}", "object: " + plain},
		{"with what its user wrote into metadata", inWeb,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, labels: {l: "1"}, finalizers: [example.com/f], annotations: {a: "1", kubectl.kubernetes.io/last-applied-configuration: "{}"}}}`, "{}",
			`object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, labels: {l: "1"}, finalizers: [example.com/f], annotations: {a: "1"}}}`},
		{"adopting", Manifests{Namespace: "addons", Adopt: true}, plain, "{}", "adopt: true\nobject: " + plain},
		{"with a removal", Manifests{Namespace: "addons", Removal: fleetv1alpha1.RemovalKeep}, plain, "{}", "removal: Keep\nobject: " + plain},
		{"selected as its object is", inWeb,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, labels: {app: x, app.kubernetes.io/instance: x, app.kubernetes.io/version: not a value, app.kubernetes.io/: x, my.app.kubernetes.io/name: x}}}`,
			"{app.kubernetes.io/instance: x}",
			`object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, labels: {app: x, app.kubernetes.io/instance: x, app.kubernetes.io/version: not a value, app.kubernetes.io/: x, my.app.kubernetes.io/name: x}}}`},
	} {
		got, err := c.how.Of(read(t, c.given))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		want := read(t, "{apiVersion: fleet.atoll.dev/v1alpha1, kind: Manifest}")[0].Object.(*unstructured.Unstructured)
		want.Object["metadata"] = map[string]any{"name": "configmap--web--a", "namespace": "addons"}
		for path, text := range map[string]string{"labels": c.labels, "spec": c.spec} {
			value := map[string]any{}
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			switch {
			case path == "spec":
				want.Object["spec"] = value
			case len(value) > 0:
				want.Object["metadata"].(map[string]any)["labels"] = value
			}
		}
		if diff := cmp.Diff(want.Object, got[0].Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestNumbersStayWhatTheyAre(t *testing.T) {
	given := []ReadObject{{Source: "-", Object: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"large": int64(9007199254740993), "part": 0.25},
	}}}}
	got, err := Manifests{}.Of(given)
	if err != nil {
		t.Fatal(err)
	}
	spec, _, _ := unstructured.NestedMap(got[0].Object, "spec", "object", "spec")
	if diff := cmp.Diff(map[string]any{"large": int64(9007199254740993), "part": 0.25}, spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func names(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetName())
	}
	return out
}

func TestEachObjectOfAListHasAManifest(t *testing.T) {
	got, err := Manifests{}.Of(read(t, `{apiVersion: v1, kind: List, items: [
		{apiVersion: v1, kind: ConfigMap, metadata: {name: a}},
		{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]}]}`,
		"{apiVersion: v1, kind: List, items: []}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"configmap--a", "configmap--b", "configmap--c"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANamespaceIsFilledInWhereNoneIsNamed(t *testing.T) {
	how := Manifests{ObjectNamespace: "web", Namespaced: func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "ConfigMap" }}
	got, err := how.Of(read(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: other}}",
		"{apiVersion: v1, kind: Node, metadata: {name: a}}"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"configmap--web--a", "configmap--other--a", "node--a"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if namespace, _, _ := unstructured.NestedString(got[0].Object, "spec", "object", "metadata", "namespace"); namespace != "web" {
		t.Errorf("the object is in %q", namespace)
	}
}

func TestWhatCannotBeCarriedIsNamedWithTheWayOut(t *testing.T) {
	const secret = "swordfish"
	for _, c := range []struct {
		given string
		want  []string
	}{
		{"{kind: Secret, metadata: {name: a, namespace: web}, stringData: {k: swordfish}}", []string{"Secret web/a (addon.yaml, object 1) has no apiVersion"}},
		{"{apiVersion: v1, metadata: {name: a}, stringData: {k: swordfish}}", []string{"a (addon.yaml, object 1) has no kind"}},
		{"{apiVersion: v1, stringData: {k: swordfish}}", []string{"addon.yaml, object 1 has no kind"}},
		{"{apiVersion: a/b/c, kind: Secret, metadata: {name: a}}", []string{`Secret a (addon.yaml, object 1) has the apiVersion "a/b/c"`}},
		{"{apiVersion: a/, kind: Secret, metadata: {name: a}}", []string{`has the apiVersion "a/"`}},
		{"{apiVersion: v1, kind: Secret, metadata: {generateName: a-}, stringData: {k: swordfish}}", []string{"Secret a- (addon.yaml, object 1) has generateName and no name", "give it metadata.name"}},
		{"{apiVersion: v1, kind: Secret, stringData: {k: swordfish}}", []string{"Secret (addon.yaml, object 1) has no name"}},
		{"{apiVersion: fleet.atoll.dev/v1alpha1, kind: Manifest, metadata: {name: a}, spec: {object: {stringData: {k: swordfish}}}}", []string{"Manifest a (addon.yaml, object 1) is of fleet.atoll.dev"}},
		{"{apiVersion: atoll.dev/v1, kind: X, metadata: {name: a}}", []string{"is of atoll.dev"}},
		{"{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}", []string{"Kustomization (addon.yaml, object 1) is for kustomize; name its directory with -k"}},
		{"{apiVersion: v1, kind: List, items: []}", []string{"there is no object"}},
		{`{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: swordfish}}, {kind: Secret, metadata: {name: b}},
			{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {other: "1"}}, stringData: {k: swordfish}}]}`,
			[]string{"Secret b (addon.yaml, object 2) has no apiVersion", "Secret a (addon.yaml, object 3) is in addon.yaml, object 1, too"}},
		{"{apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}, {apiVersion: apps/v1beta1, kind: Deployment, metadata: {name: a}}]}",
			[]string{"Deployment a (addon.yaml, object 2) is in addon.yaml, object 1, too"}},
		{"{apiVersion: v1, kind: List, items: [swordfish]}", []string{"reading addon.yaml"}},
	} {
		got, err := Manifests{}.Of(read(t, c.given))
		if err == nil || got != nil {
			t.Errorf("%s: %v %v, want an error", c.given, names(got), err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.given, err, want)
			}
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v repeats what is in it", c.given, err)
		}
	}
	if _, err := (Manifests{}).Of(nil); err == nil {
		t.Error("nothing is no error")
	}
}

func TestAnObjectThatIsReadIsNotChanged(t *testing.T) {
	given := read(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}}, status: {}}")
	before := given[0].Object.DeepCopyObject()
	if _, err := (Manifests{}).Of(slices.Clone(given)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, runtime.Object(given[0].Object)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
