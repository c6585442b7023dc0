package syncer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func overridesOf(t testing.TB, text string) []placementv1alpha1.TargetOverride {
	t.Helper()
	var out []placementv1alpha1.TargetOverride
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// oneOverride is one override with the operations.
func oneOverride(t testing.TB, patch string) []placementv1alpha1.TargetOverride {
	return overridesOf(t, "[{name: 'overrides[0] of policy a', patch: "+patch+"}]")
}

const harmless = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web, uid: u1}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {dnsPolicy: ClusterFirst, containers: [{name: a, image: i}]}
`

// Whoever writes policies gets nothing past the table of what goes down: with an override
// it is refused as it is without one to a user who writes the same. The control: the
// override itself makes just that of the object, so it is the table that keeps it.
func TestAnOverrideSmugglesNothingPastTheBoundary(t *testing.T) {
	for name, attack := range map[string]struct{ patch, written, looks string }{
		"privileged": {
			`[{op: add, path: /spec/template/spec/containers/0/securityContext, value: {privileged: true}}]`,
			`{dnsPolicy: ClusterFirst, containers: [{name: a, image: i, securityContext: {privileged: true}}]}`, "privileged: true",
		},
		"a path of the node": {
			`[{op: add, path: /spec/template/spec/volumes, value: [{name: v, hostPath: {path: /}}]}]`,
			`{dnsPolicy: ClusterFirst, volumes: [{name: v, hostPath: {path: /}}], containers: [{name: a, image: i}]}`, "hostPath",
		},
		"a path of the node in a whole template": {
			`[{op: replace, path: /spec/template, value: {metadata: {labels: {app: web}}, spec: {dnsPolicy: ClusterFirst, volumes: [{name: v, hostPath: {path: /}}], containers: [{name: a, image: i}]}}}]`,
			`{dnsPolicy: ClusterFirst, volumes: [{name: v, hostPath: {path: /}}], containers: [{name: a, image: i}]}`, "hostPath",
		},
		"the processes of the node": {
			`[{op: add, path: /spec/template/spec/hostPID, value: true}]`,
			`{dnsPolicy: ClusterFirst, hostPID: true, containers: [{name: a, image: i}]}`, "hostPID: true",
		},
		"a node": {
			`[{op: add, path: /spec/template/spec/nodeName, value: node-1}]`,
			`{dnsPolicy: ClusterFirst, nodeName: node-1, containers: [{name: a, image: i}]}`, "nodeName",
		},
		"a priority of the system": {
			`[{op: add, path: /spec/template/spec/priorityClassName, value: system-node-critical}]`,
			`{dnsPolicy: ClusterFirst, priorityClassName: system-node-critical, containers: [{name: a, image: i}]}`, "priorityClassName",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := placingOf(t, harmless)
			byUser := parse(t, harmless)
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(attack.written), &spec); err != nil {
				t.Fatal(err)
			}
			setNested(byUser.Object, spec, "spec", "template", "spec")
			want, wantFindings := Transform(byUser, p)
			p.Target.Overrides = oneOverride(t, attack.patch)
			got, findings := Transform(parse(t, harmless), p)
			if diff := cmp.Diff(wantFindings, findings); diff != "" || len(findings) == 0 {
				t.Errorf("other findings than for the user (-want +got):\n%s", diff)
			}
			withoutNotes(want)
			withoutNotes(got)
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("something else goes down than for the user (-want +got):\n%s", diff)
			}
			if text := asYAML(t, field(field(field(got.Object, "spec"), "template"), "spec")); strings.Contains(text, attack.looks) && len(boundary.Refusals(findings)) == 0 {
				t.Errorf("it goes down: %s", text)
			}
			// The control: the override does bite. Before the filter it is there.
			changed, err := overridden(parse(t, harmless), p)
			if err != nil || !strings.Contains(asYAML(t, changed.Object), attack.looks) {
				t.Errorf("the override itself does nothing, and the test proves nothing: %v", err)
			}
		})
	}
}

func withoutNotes(obj *unstructured.Unstructured) {
	for _, t := range workload.PodTemplates(kindOfDeployment, obj.Object) {
		for _, name := range []string{overriddenAnnotation, replacedAnnotation} {
			delete(field(field(t, "metadata"), "annotations"), name)
		}
		if metadata := field(t, "metadata"); len(field(metadata, "annotations")) == 0 {
			delete(metadata, "annotations")
		}
	}
	delete(field(field(obj.Object, "metadata"), "annotations"), AppliedAnnotation)
}

var kindOfDeployment = func() workload.Kind {
	for _, k := range workload.Builtin().Kinds() {
		if k.Kind == "Deployment" {
			return k
		}
	}
	panic("no Deployments")
}()

func TestAnOverrideThatFailsAppliesNothing(t *testing.T) {
	for name, c := range map[string]struct{ of, patch, want string }{
		"a path that is not there": {harmless, `[{op: replace, path: /spec/template/spec/containers/0/image, value: x}, {op: replace, path: /spec/paused, value: true}]`, `there is no "paused"`},
		"another account":          {harmless, `[{op: add, path: /spec/template/spec/serviceAccountName, value: admin}]`, "serviceAccountName"},
		"a token":                  {harmless, `[{op: add, path: /spec/template/spec/volumes, value: [{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: vault}}]}}]}]`, "whether pods have tokens"},
		"who answers with names":   {harmless, `[{op: replace, path: /spec/template/spec/dnsPolicy, value: Default}]`, "who answers with names"},
		"a host of others": {
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: web, uid: u}, spec: {rules: [{host: mine.example.com}]}}",
			`[{op: replace, path: /spec/rules/0/host, value: bank.example.com}]`, "host bank.example.com",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := placingOf(t, c.of)
			p.Target.Overrides = oneOverride(t, c.patch)
			got, findings := Transform(parse(t, c.of), p)
			if refusals := boundary.Refusals(findings); len(refusals) != 1 || !strings.Contains(refusals[0].Why, c.want) {
				t.Errorf("%v, want %s", findings, c.want)
			}
			if len(got.Object) > 0 {
				t.Errorf("something of it would be applied: %v", got.Object)
			}
			if f := overrideFailure(parse(t, c.of), p); f == nil || f.Reason != ReasonOverrideFailed || !strings.HasPrefix(f.Message, "overrides[0] of policy a: ") {
				t.Errorf("the failure is %v", f)
			}
		})
	}
}

// The plan leaves what is below as it is, and says which override it is; the digest has the
// overrides in it, so that another one is applied.
func TestACopyWithAnOverrideThatFailsStaysAsItIs(t *testing.T) {
	in := situation{kind: "Deployment", logical: "live", copy: "Synced", physical: "old"}.input()
	annotate := func(value string) {
		annotations := in.Logical.GetAnnotations()
		annotations[placementv1alpha1.TargetsAnnotation] = value
		in.Logical.SetAnnotations(annotations)
	}
	digests := map[string]bool{}
	for _, value := range []string{
		`{"east":{"overrides":[{"name":"a","patch":[{"op":"add","path":"/metadata/labels/a","value":"b"}]}]}}`,
		`{"east":{"overrides":[{"name":"a","patch":[{"op":"add","path":"/metadata/labels/a","value":"c"}]}]}}`,
	} {
		annotate(value)
		actions := Plan(in)
		if len(actions) == 0 || actions[len(actions)-1].Verb != Apply {
			t.Fatalf("%s: %v", value, actions)
		}
		digests[actions[len(actions)-1].Object.GetAnnotations()[AppliedAnnotation]] = true
	}
	if len(digests) != 2 {
		t.Errorf("%d digests of two different copies", len(digests))
	}
	annotate(`{"east":{"overrides":[{"name":"overrides[0] of policy a","patch":[{"op":"remove","path":"/spec/nothing"}]}]}}`)
	actions := Plan(in)
	if len(actions) != 1 || actions[0].Verb != WriteCopy || actions[0].Copy.Status.State != placementv1alpha1.CopyFailed ||
		actions[0].Copy.Status.Reason != ReasonOverrideFailed || !strings.Contains(actions[0].Copy.Status.Message, "overrides[0] of policy a") {
		t.Errorf("%+v", actions)
	}
}

// The history of what a user wrote has no overrides in it: they come back off the template.
func TestTemplatesComeBackWithoutOverrides(t *testing.T) {
	for name, patch := range map[string]string{
		"an image":           `[{op: replace, path: /spec/template/spec/containers/0/image, value: x}]`,
		"something new":      `[{op: add, path: /spec/template/spec/nodeSelector, value: {kubernetes.io/arch: arm64}}, {op: add, path: /spec/template/metadata/labels/b, value: c}]`,
		"something less":     `[{op: remove, path: /spec/template/spec/terminationGracePeriodSeconds}, {op: remove, path: /spec/template/metadata/labels/c}]`,
		"not permitted":      `[{op: add, path: /spec/template/spec/priorityClassName, value: system-node-critical}]`,
		"first annotations":  `[{op: add, path: /spec/template/metadata/annotations, value: {a: b}}]`,
		"a whole template":   `[{op: replace, path: /spec/template, value: {metadata: {labels: {app: web}}, spec: {serviceAccountName: robot, serviceAccount: robot, containers: [{name: z, image: z}]}}}]`,
		"what is not of it":  `[{op: add, path: /metadata/labels/b, value: c}]`,
		"env beside our own": `[{op: add, path: /spec/template/spec/containers/0/env, value: [{name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			const text = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web, uid: u1}
spec:
  template:
    metadata: {labels: {app: web, c: d}}
    spec: {serviceAccountName: robot, serviceAccount: robot, terminationGracePeriodSeconds: 5, containers: [{name: a, image: i}]}
`
			p := placingOf(t, text)
			p.Target.Overrides = oneOverride(t, patch)
			below, findings := Transform(parse(t, text), p)
			if len(boundary.Refusals(findings)) > 0 {
				t.Fatal(findings)
			}
			template := field(field(below.Object, "spec"), "template")
			templateUp(template)
			if metadata := field(template, "metadata"); len(field(metadata, "annotations")) == 0 {
				delete(metadata, "annotations")
			}
			if diff := cmp.Diff(field(field(parse(t, text).Object, "spec"), "template"), template); diff != "" {
				t.Errorf("(-written +mirrored):\n%s", diff)
			}
		})
	}
}

func TestNobodyForgesWhatATemplateWasBefore(t *testing.T) {
	obj := parse(t, harmless)
	setNested(obj.Object, `{"spec":{"containers":[]}}`, "spec", "template", "metadata", "annotations", overriddenAnnotation)
	below, _ := Transform(obj, placingOf(t, harmless))
	if text := asYAML(t, below.Object); strings.Contains(text, overriddenAnnotation) {
		t.Errorf("it goes down: %s", text)
	}
}
