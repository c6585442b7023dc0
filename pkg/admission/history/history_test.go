package history

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func digest(t *testing.T, template corev1.PodTemplateSpec) string {
	t.Helper()
	d, err := Digest(template)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func templateOf(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

func TestATemplateIsTheSameAfterDefaultsAndMarks(t *testing.T) {
	t.Parallel()
	want := digest(t, templateOf("nginx"))
	for name, change := range map[string]func(*corev1.PodTemplateSpec){
		"defaults": func(t *corev1.PodTemplateSpec) {
			t.Spec.RestartPolicy, t.Spec.DNSPolicy = corev1.RestartPolicyAlways, corev1.DNSClusterFirst
		},
		"the hash":            func(t *corev1.PodTemplateSpec) { t.Labels["pod-template-hash"] = "abc" },
		"another hash":        func(t *corev1.PodTemplateSpec) { t.Labels["rollouts-pod-template-hash"] = "abc" },
		"a mark of ours":      func(t *corev1.PodTemplateSpec) { t.Labels["atoll.dev/managed-by"] = "abc" },
		"an empty annotation": func(t *corev1.PodTemplateSpec) { t.Annotations = map[string]string{} },
	} {
		changed := templateOf("nginx")
		change(&changed)
		if digest(t, changed) != want {
			t.Errorf("%s makes it another template", name)
		}
	}
	for name, change := range map[string]func(*corev1.PodTemplateSpec){
		"an image": func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = "evil" },
		"a label":  func(t *corev1.PodTemplateSpec) { t.Labels["b"] = "c" },
		"a Secret": func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
		},
		"an account": func(t *corev1.PodTemplateSpec) { t.Spec.ServiceAccountName = "admin" },
		"a command":  func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Args = []string{"-v"} },
	} {
		changed := templateOf("nginx")
		change(&changed)
		if digest(t, changed) == want {
			t.Errorf("%s makes it no other template", name)
		}
	}
}

func TestTheHistoryIsBoundedAndTheNewestFirst(t *testing.T) {
	t.Parallel()
	h := Parse("")
	for i := range 3 * most {
		h = h.With(string(rune('A' + i)))
	}
	again := Parse(h.With(h[5]).String())
	if len(again) != most || again[0] != h[5] || again[1] != h[0] || !again.Has(h[10]) || again.Has("A") {
		t.Errorf("%v", again)
	}
}

// What kubectl applies is read in other ways than ours: the data that is kept is made from
// what was read.
func TestARevisionSaysNothingButItsTemplate(t *testing.T) {
	t.Parallel()
	good, err := Revision(templateOf("nginx"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"a template":            string(good),
		"more of the spec":      `{"spec":{"serviceName":"evil",` + string(good[len(`{"spec":{`):]),
		"other letters":         `{"Spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}},` + string(good[1:]),
		"other metadata":        `{"metadata":{"labels":{"a":"b"}},` + string(good[1:]),
		"a field of no kind":    `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"nginx","unknown":1}]}}}}`,
		"letters in containers": `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"nginx","Image":"evil"}]}}}}`,
	} {
		template, ok := OfRevision([]byte(data))
		if !ok {
			t.Errorf("%s: no template was read", name)
			continue
		}
		again, err := Revision(template)
		if err != nil || digest(t, template) != digest(t, templateOf("nginx")) {
			t.Errorf("%s: %v, %v", name, template, err)
			continue
		}
		var got, want any
		_, _ = json.Unmarshal(again, &got), json.Unmarshal(good, &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	for _, data := range []string{``, `[]`, `{}`, `{"spec":{}}`, `{"Spec":{"template":{}}}`, `{"spec":{"template":"a"}}`} {
		if _, ok := OfRevision([]byte(data)); ok {
			t.Errorf("a template was read in %q", data)
		}
	}
}
