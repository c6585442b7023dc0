package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
)

func class(name, handler string, tolerated ...string) nodev1.RuntimeClass {
	c := nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}
	for _, taint := range tolerated {
		c.Scheduling = &nodev1.Scheduling{Tolerations: []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}}}
	}
	return c
}

func TestOfRuntimeClassesThoseThatArePermittedAreOfferedByName(t *testing.T) {
	all := []nodev1.RuntimeClass{class("sandbox", "runsc"), class("gvisor", "runsc"), class("vm", "kata"), class("broken", ""), class("a-pool", "runsc", "pool")}
	for name, c := range map[string]struct {
		permits boundary.Permits
		want    []RuntimeClass
	}{
		"by default":       {boundary.Permits{}, []RuntimeClass{{"gvisor", "runsc"}, {"sandbox", "runsc"}, {"vm", "kata"}}},
		"with its taint":   {boundary.Permits{Taints: []string{"pool"}}, []RuntimeClass{{"a-pool", "runsc"}, {"gvisor", "runsc"}, {"sandbox", "runsc"}, {"vm", "kata"}}},
		"what is named":    {boundary.Permits{RuntimeClasses: []string{"a-pool", "vm", "broken"}}, []RuntimeClass{{"a-pool", "runsc"}, {"vm", "kata"}}},
		"what is not here": {boundary.Permits{RuntimeClasses: []string{"x"}}, nil},
	} {
		if diff := cmp.Diff(c.want, RuntimeClasses(all, c.permits)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
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
	needs := func(classes ...RuntimeClass) func(*Input) {
		return func(in *Input) {
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`, placementv1alpha1.RuntimeHandlerAnnotation: "runsc"})
			in.RuntimeClasses = classes
		}
	}
	// names has pods name a class that the logical cluster does not have.
	names := func(name string, permits boundary.Permits, classes ...RuntimeClass) func(*Input) {
		return func(in *Input) {
			setNested(in.Logical.Object, name, "spec", "runtimeClassName")
			in.Permits, in.RuntimeClasses = permits, classes
		}
	}
	gvisor, vm, listed := RuntimeClass{"gvisor", "runsc"}, RuntimeClass{"vm", "kata"}, boundary.Permits{RuntimeClasses: []string{"vm"}}
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{"offered", situation{kind: "Pod", logical: "live", copy: "Pending", edit: needs(gvisor)}, "Apply Absent"},
		{"not offered", situation{kind: "Pod", logical: "live", copy: "Pending", edit: needs(vm)}, "WriteCopy Failed/NoRuntimeClass"},
		{"nothing known of it", situation{kind: "Pod", logical: "live", copy: "Pending", edit: needs()}, "WriteCopy Failed/NoRuntimeClass"},
		{"not any more: what runs is left", situation{kind: "Pod", logical: "live", copy: "Synced", physical: "old", edit: needs()}, "WriteCopy Failed/NoRuntimeClass"},
		{"a name that is offered", situation{kind: "Pod", logical: "live", copy: "Pending", edit: names("vm", boundary.Permits{}, gvisor, vm)}, "Apply Absent"},
		{"a handler is no name", situation{kind: "Pod", logical: "live", copy: "Pending", edit: names("kata", boundary.Permits{}, gvisor, vm)}, "WriteCopy Failed/NoRuntimeClass"},
		{"a name that is not offered, or not any more", situation{kind: "Pod", logical: "live", copy: "Synced", physical: "old", edit: names("a-pool", boundary.Permits{}, gvisor, vm)}, "WriteCopy Failed/NoRuntimeClass"},
		{"a name that is permitted by name, whatever is there", situation{kind: "Pod", logical: "live", copy: "Pending", edit: names("vm", listed)}, "Apply Absent"},
		{"a name that is not", situation{kind: "Pod", logical: "live", copy: "Pending", edit: names("gvisor", listed, gvisor)}, "WriteCopy Failed/NotPermitted"},
		{"a deletion needs no class", situation{kind: "Pod", logical: "deleting", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
	} {
		if got := describe(Plan(c.s.input())); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
