package override

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func decode(t testing.TB, text string, into any) {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func object(t testing.TB, text string) (workload.Kind, map[string]any) {
	t.Helper()
	var obj map[string]any
	decode(t, text, &obj)
	version, _ := obj["apiVersion"].(string)
	name, _ := obj["kind"].(string)
	kind, ok := workload.Builtin().ByKind(schema.FromAPIVersionAndKind(version, name).GroupKind())
	if !ok {
		t.Fatalf("no kind %s", name)
	}
	return kind, obj
}

func patch(t testing.TB, text string) []placementv1alpha1.PatchOperation {
	t.Helper()
	var out []placementv1alpha1.PatchOperation
	decode(t, text, &out)
	return out
}

func one(t testing.TB, text string) []placementv1alpha1.TargetOverride {
	t.Helper()
	return []placementv1alpha1.TargetOverride{{Name: "overrides[0] of policy a", Patch: patch(t, text)}}
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web, uid: u1, labels: {app: web}, annotations: {kcp.io/cluster: shop}}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: a, image: one, env: [{name: A, value: "1"}, {name: B, value: "2"}]}
      - {name: b, image: two}
      volumes: [{name: c, configMap: {name: known}}]
`

const ofA = "/spec/template/spec/containers/0"

func TestOverridesChangeWhatTheyName(t *testing.T) {
	for name, c := range map[string]struct{ of, patch, path, want string }{
		"an image":                  {deployment, `[{op: replace, path: ` + ofA + `/image, value: mirror/one}]`, "spec.template.spec.containers.0.image", `"mirror/one"`},
		"a field that is not there": {deployment, `[{op: add, path: /spec/template/spec/nodeSelector, value: {disk: ssd}}]`, "spec.template.spec.nodeSelector", `{"disk":"ssd"}`},
		"a field that is there":     {deployment, `[{op: add, path: ` + ofA + `/image, value: x}]`, "spec.template.spec.containers.0.image", `"x"`},
		"an item at the end":        {deployment, `[{op: add, path: ` + ofA + `/env/-, value: {name: C}}]`, "spec.template.spec.containers.0.env", `[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"C"}]`},
		"an item before another":    {deployment, `[{op: add, path: ` + ofA + `/env/1, value: {name: C}}]`, "spec.template.spec.containers.0.env", `[{"name":"A","value":"1"},{"name":"C"},{"name":"B","value":"2"}]`},
		"an item taken off":         {deployment, `[{op: remove, path: ` + ofA + `/env/0}]`, "spec.template.spec.containers.0.env", `[{"name":"B","value":"2"}]`},
		"a test, then a change":     {deployment, `[{op: test, path: ` + ofA + `/name, value: a}, {op: replace, path: ` + ofA + `/env/0/value, value: "7"}]`, "spec.template.spec.containers.0.env.0.value", `"7"`},
		"what was just added":       {deployment, `[{op: add, path: /spec/strategy, value: {rollingUpdate: {}}}, {op: add, path: /spec/strategy/rollingUpdate/maxSurge, value: 2}]`, "spec.strategy", `{"rollingUpdate":{"maxSurge":2}}`},
		"a label":                   {deployment, `[{op: add, path: /metadata/labels/example.com~1tier, value: front}]`, "metadata.labels", `{"app":"web","example.com/tier":"front"}`},
		"the first annotation":      {"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer}}", `[{op: add, path: /metadata/annotations/lb~1class, value: nlb}]`, "metadata.annotations", `{"lb/class":"nlb"}`},
		"the last label":            {"{apiVersion: v1, kind: Service, metadata: {name: a, labels: {b: c}}, spec: {}}", `[{op: remove, path: /metadata/labels/b}]`, "metadata", `{"name":"a"}`},
		"the class of a claim":      {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {storageClassName: fast}}", `[{op: replace, path: /spec/storageClassName, value: gp3}]`, "spec.storageClassName", `"gp3"`},
		"a schedule":                {"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '* * * * *'}}", `[{op: replace, path: /spec/schedule, value: '@daily'}]`, "spec.schedule", `"@daily"`},
		"a class of an Ingress":     {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {rules: [{host: a.b}]}}", `[{op: add, path: /spec/ingressClassName, value: alb}]`, "spec.ingressClassName", `"alb"`},
	} {
		t.Run(name, func(t *testing.T) {
			kind, obj := object(t, c.of)
			_, before := object(t, c.of)
			got, err := Apply(kind, obj, one(t, c.patch))
			if err != nil {
				t.Fatal(err)
			}
			if errs := Validate(patch(t, c.patch), field.NewPath("patch")); len(errs) > 0 {
				t.Errorf("it is not valid: %v", errs)
			}
			var want any
			decode(t, c.want, &want)
			var at any = got
			for _, name := range strings.Split(c.path, ".") {
				switch v := at.(type) {
				case map[string]any:
					at = v[name]
				case []any:
					at = v[name[0]-'0']
				}
			}
			if diff := cmp.Diff(want, at); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, obj); diff != "" {
				t.Errorf("the object itself was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAnOverrideThatDoesNotApplySaysWhichAndWhy(t *testing.T) {
	kind, obj := object(t, deployment)
	_, before := object(t, deployment)
	for text, want := range map[string]string{
		`[{op: replace, path: ` + ofA + `/env/0/value, value: x}, {op: replace, path: /spec/paused, value: true}]`: `overrides[0] of policy a: patch[1], replace /spec/paused: there is no "paused"`,
		`[{op: remove, path: /spec/paused}]`:                                        `there is no "paused"`,
		`[{op: test, path: ` + ofA + `/image, value: other}]`:                       "it is something else",
		`[{op: test, path: /spec/paused, value: true}]`:                             `there is no "paused"`,
		`[{op: add, path: /spec/strategy/rollingUpdate, value: {}}]`:                `there is no "strategy"`,
		`[{op: replace, path: /spec/template/spec/containers/2, value: {}}]`:        "the list has 2 items",
		`[{op: add, path: /spec/template/spec/containers/3, value: {}}]`:            "the list has 2 items",
		`[{op: remove, path: /spec/template/spec/containers/-}]`:                    `"-" is no place in a list`,
		`[{op: remove, path: /spec/template/spec/containers/-1}]`:                   `"-1" is no place in a list`,
		`[{op: remove, path: /spec/template/spec/containers/00}]`:                   `"00" is no place in a list`,
		`[{op: remove, path: /spec/template/spec/containers/99999999999999999999}]`: "is no place in a list",
		`[{op: add, path: ` + ofA + `/image/x, value: 1}]`:                          "there is nothing that could have",
		`[{op: copy, path: /spec/paused, value: 1}]`:                                "there is no",
		`[{op: copy, path: ` + ofA + `/image, value: 1}]`:                           "no such operation",
		`[{op: add, path: /metadata/labels/a, value: 1}]`:                           "is a string",
		// What an override may not change, however it comes to.
		`[{op: replace, path: /spec/template, value: {spec: {serviceAccountName: admin, containers: []}}}]`:         "serviceAccountName: it says who the pods are",
		`[{op: add, path: /spec/template/spec/automountServiceAccountToken, value: true}]`:                          "automountServiceAccountToken",
		`[{op: add, path: /spec/template/spec/runtimeClassName, value: kata}]`:                                      "runtimeClassName",
		`[{op: remove, path: /spec/template}]`:                                                                      "pod templates are neither",
		`[{op: replace, path: /spec/replicas, value: 9}]`:                                                           "use replicas of the policy",
		`[{op: replace, path: /spec/template/spec/volumes/0/configMap/name, value: other}]`:                         "it names configmaps other",
		`[{op: add, path: ` + ofA + `/envFrom, value: [{secretRef: {name: s}}]}]`:                                   "it names secrets s",
		`[{op: add, path: /spec/template/spec/volumes/-, value: {name: d, persistentVolumeClaim: {claimName: d}}}]`: "it names persistentvolumeclaims d",
	} {
		got, err := Apply(kind, obj, one(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "overrides[0] of policy a: ") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if got != nil {
			t.Errorf("%s: something of it is applied", text)
		}
	}
	if diff := cmp.Diff(before, obj); diff != "" {
		t.Errorf("the object itself was changed (-before +after):\n%s", diff)
	}
}

func TestOfOtherKindsTheSameIsFixed(t *testing.T) {
	for of, c := range map[string][2]string{
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {parallelism: 1, template: {spec: {}}}}":                                  {`[{op: replace, path: /spec/parallelism, value: 9}]`, "use replicas of the policy"},
		"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {a: b}}}":                                                        {`[{op: replace, path: /spec/selector/a, value: c}]`, "/spec/selector"},
		"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {scaleTargetRef: {kind: Deployment, name: a}}}": {`[{op: replace, path: /spec/scaleTargetRef/name, value: c}]`, "/spec/scaleTargetRef"},
		"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {defaultBackend: {service: {name: a}}}}":                  {`[{op: replace, path: /spec/defaultBackend/service/name, value: b}]`, "it names services b"},
		"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: b}, spec: {tls: [{secretName: a}]}}":                                {`[{op: replace, path: /spec/tls/0/secretName, value: b}]`, "it names secrets b"},
	} {
		kind, obj := object(t, of)
		if _, err := Apply(kind, obj, one(t, c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %s", of, err, c[1])
		}
	}
}

func TestOverridesAreAppliedInOrder(t *testing.T) {
	kind, obj := object(t, deployment)
	image := func(value string) placementv1alpha1.TargetOverride {
		return placementv1alpha1.TargetOverride{Name: value, Patch: patch(t, `[{op: replace, path: `+ofA+`/image, value: `+value+`}]`)}
	}
	for want, list := range map[string][]placementv1alpha1.TargetOverride{
		"two":   {image("one"), image("two")},
		"three": {image("two"), image("three")},
	} {
		got, err := Apply(kind, obj, list)
		if err != nil {
			t.Fatal(err)
		}
		c := workload.PodTemplates(kind, got)[0]["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		if c["image"] != want {
			t.Errorf("the image is %v, want %s", c["image"], want)
		}
	}
	if _, err := Apply(kind, obj, []placementv1alpha1.TargetOverride{image("one"), {Name: "b", Problem: "too long"}}); err == nil || err.Error() != "b: too long" {
		t.Errorf("an override that cannot be honoured: %v", err)
	}
}

// A tenant writes policies: what the system writes, and what an object is, is not theirs.
func TestWhatNoOverrideMayNameIsSaidByField(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                                                                                                           "patch: Required",
		`[{op: move, path: /spec/a, value: 1}]`:                                                                        "patch[0].op: Unsupported",
		`[{op: add, path: "", value: {}}]`:                                                                             "patch[0].path: Forbidden: it must be a JSON pointer",
		`[{op: add, path: /, value: {}}]`:                                                                              "patch[0].path: Forbidden: it must be a JSON pointer",
		`[{op: add, path: spec/a, value: {}}]`:                                                                         "patch[0].path: Forbidden: it must be a JSON pointer",
		`[{op: add, path: /spec//a, value: 1}]`:                                                                        "is no part of a JSON pointer",
		`[{op: add, path: /spec/~2, value: 1}]`:                                                                        "is no part of a JSON pointer",
		`[{op: replace, path: /kind, value: Pod}]`:                                                                     "what an object is",
		`[{op: replace, path: /apiVersion, value: v2}]`:                                                                "what an object is",
		`[{op: replace, path: /status/replicas, value: 2}]`:                                                            "the status is what",
		`[{op: replace, path: /spec, value: {}}]`:                                                                      "name the field of the spec",
		`[{op: replace, path: /metadata, value: {}}]`:                                                                  "single labels and annotations",
		`[{op: replace, path: /metadata/name, value: b}]`:                                                              "single labels and annotations",
		`[{op: replace, path: /metadata/namespace, value: b}]`:                                                         "single labels and annotations",
		`[{op: add, path: /metadata/ownerReferences, value: []}]`:                                                      "single labels and annotations",
		`[{op: add, path: /metadata/finalizers/-, value: a}]`:                                                          "single labels and annotations",
		`[{op: replace, path: /metadata/labels, value: {}}]`:                                                           "single labels and annotations",
		`[{op: add, path: /metadata/annotations/placement.atoll.dev~1targets, value: "{}"}]`:                           "placement.atoll.dev/targets is written by the system only",
		`[{op: remove, path: /metadata/annotations/kcp.io~1cluster}]`:                                                  "kcp.io/cluster is written by the system only",
		`[{op: add, path: /metadata/annotations/placement.atoll.dev~1cluster, value: east}]`:                           "placement.atoll.dev/cluster cannot be",
		`[{op: add, path: /metadata/labels/atoll.dev~1managed-by, value: x}]`:                                          "atoll.dev/managed-by is written by the system only",
		`[{op: add, path: /spec/template/metadata/labels/atoll.dev~1managed-by, value: x}]`:                            "atoll.dev/managed-by is written by the system only",
		`[{op: add, path: /spec/template/metadata, value: {annotations: {atoll.dev/uid: x}}}]`:                         "patch[0].value: Forbidden: atoll.dev/uid",
		`[{op: replace, path: /spec/replicas, value: 2}]`:                                                              "use replicas of the policy",
		`[{op: add, path: /spec/a}]`:                                                                                   "patch[0].value: Required",
		`[{op: add, path: /spec/a, value: null}]`:                                                                      "patch[0].value: Required",
		`[{op: add, path: /spec/` + strings.Repeat("a", maxPath) + `, value: 1}]`:                                      "longer than 512",
		`[{op: add, path: /spec/a, value: ` + strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2) + `}]`: "deep",
	} {
		errs := Validate(patch(t, text), field.NewPath("patch"))
		if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("%.200s: %v, want %s", text, errs, want)
		}
		// What was stored before it was forbidden does not apply either.
		if kind, obj := object(t, deployment); len(text) > 2 {
			if _, err := Apply(kind, obj, one(t, text)); err == nil {
				t.Errorf("%.200s: applied", text)
			}
		}
	}
	many := strings.Repeat("{op: remove, path: /spec/a},", maxOperations+1)
	if errs := Validate(patch(t, "["+many+"]"), field.NewPath("patch")); len(errs) != 1 || errs[0].Type != field.ErrorTypeTooMany {
		t.Errorf("too many operations: %v", errs)
	}
}

// FuzzApply: whatever a tenant writes, nothing panics, and what identifies an object stays.
func FuzzApply(f *testing.F) {
	f.Add("/spec/template/spec/containers/0/image", `"x"`, "add")
	f.Add("/metadata/labels/a", `"x"`, "remove")
	f.Add("/spec/template", `null`, "replace")
	f.Add("/spec/template/spec", `[1]`, "replace")
	kind, obj := object(f, deployment)
	f.Fuzz(func(t *testing.T, path, value, op string) {
		o := placementv1alpha1.PatchOperation{Op: placementv1alpha1.PatchOp(op), Path: path, Value: &placementv1alpha1.PatchValue{Raw: []byte(value)}}
		got, err := Apply(kind, obj, []placementv1alpha1.TargetOverride{{Name: "f", Patch: []placementv1alpha1.PatchOperation{o}}})
		if err != nil {
			return
		}
		for _, at := range [][]string{{"kind"}, {"apiVersion"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "annotations", "kcp.io/cluster"}, {"spec", "replicas"}} {
			if !same(find(obj, at), find(got, at)) {
				t.Errorf("%v changed", at)
			}
		}
	})
}
