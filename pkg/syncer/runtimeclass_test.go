package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func class(name, handler string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "handler": handler}}
}

func TestARuntimeClassIsFoundByItsHandler(t *testing.T) {
	got := ByHandler([]unstructured.Unstructured{class("sandbox", "runsc"), class("gvisor", "runsc"), class("vm", "kata"), class("broken", "")})
	if diff := cmp.Diff(map[string]string{"runsc": "gvisor", "kata": "vm"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAPodRunsInTheClassThatHasItsHandler(t *testing.T) {
	pod := parse(t, `
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: web, uid: u, annotations: {placement.atoll.dev/targets: '{"east":{}}', placement.atoll.dev/runtime-handler: runsc}}
spec: {runtimeClassName: safe, overhead: {cpu: 10m}, containers: [{name: c, image: i}]}
`)
	below, _ := Transform(pod, Placing{Ref: Ref{Kind: kindOf(t, pod), Cluster: "shop", Namespace: "web", Name: "a"}, ControlPlane: "cp", Namespace: "shop-web-1", RuntimeClass: "gvisor"})
	want := map[string]any{"runtimeClassName": "gvisor", "automountServiceAccountToken": false, "containers": []any{map[string]any{"name": "c", "image": "i"}}}
	if diff := cmp.Diff(want, field(below.Object, "spec")); diff != "" {
		t.Errorf("below (-want +got)\n%s", diff)
	}

	// A pod that a controller below made of such a template is shown with the name that its logical cluster knows.
	made := parse(t, `
apiVersion: v1
kind: Pod
metadata:
  {name: b, namespace: shop-web-1, uid: p1, annotations: {atoll.dev/runtime-class: safe},
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: x, uid: p-owner, controller: true}]}
spec: {nodeName: n, runtimeClassName: gvisor, overhead: {cpu: 20m}, containers: [{name: c, image: i}]}
`)
	s := Observation{Kind: kindOf(t, pod), Physical: made, Namespace: "web", Now: time.Unix(1<<40, 0), Owner: observationOf(t, "", "").Owner}
	r := only(Observe(s))
	if name := field(r.Object.Object, "spec")["runtimeClassName"]; r.Verb != CreateUp || name != "safe" {
		t.Errorf("%s, of class %v", r.Verb, name)
	}
}

func TestATemplateIsMirroredWithTheClassThatItWasWrittenWith(t *testing.T) {
	template := func(class string) map[string]any {
		return map[string]any{"spec": map[string]any{"runtimeClassName": class}}
	}
	down := template("safe")
	templateDown(down, Placing{Ref: Ref{Kind: kinds["Deployment"], Namespace: "web"}, ControlPlane: "cp", RuntimeClass: "gvisor"})
	if name := field(down, "spec")["runtimeClassName"]; name != "gvisor" {
		t.Errorf("below it is %v", name)
	}
	templateUp(down)
	if diff := cmp.Diff("safe", field(down, "spec")["runtimeClassName"]); diff != "" {
		t.Errorf("above again (-want +got)\n%s", diff)
	}
	unknown := template("theirs")
	templateDown(unknown, Placing{Ref: Ref{Kind: kinds["Deployment"], Namespace: "web"}, ControlPlane: "cp", RuntimeClass: ""})
	if name := field(unknown, "spec")["runtimeClassName"]; name != "theirs" {
		t.Errorf("a name that the logical cluster does not know becomes %v", name)
	}
}

func TestWithoutTheHandlerNothingRuns(t *testing.T) {
	needs := func(classes map[string]string) func(*Input) {
		return func(in *Input) {
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`, placementv1alpha1.RuntimeHandlerAnnotation: "runsc"})
			in.RuntimeClasses = classes
		}
	}
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{"offered", situation{kind: "Pod", logical: "live", copy: "Pending", edit: needs(map[string]string{"runsc": "gvisor"})}, "Apply Absent"},
		{"not offered", situation{kind: "Pod", logical: "live", copy: "Pending", edit: needs(map[string]string{"kata": "vm"})}, "WriteCopy Failed/NoRuntimeClass"},
		{"nothing known of it", situation{kind: "Pod", logical: "live", copy: "Pending", edit: needs(nil)}, "WriteCopy Failed/NoRuntimeClass"},
		{"not any more: what runs is left", situation{kind: "Pod", logical: "live", copy: "Synced", physical: "old", edit: needs(nil)}, "WriteCopy Failed/NoRuntimeClass"},
		{"a deletion needs no class", situation{kind: "Pod", logical: "deleting", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
	} {
		if got := describe(Plan(c.s.input())); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
