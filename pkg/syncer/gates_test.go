package syncer

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const gate = "www.example.com/load-balanced"

func condition(name, status string) any {
	return map[string]any{"type": name, "status": status}
}

func gatedPod(namespace, uid string, gates []string, conditions ...any) *unstructured.Unstructured {
	var readiness []any
	for _, g := range gates {
		readiness = append(readiness, map[string]any{"conditionType": g})
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"spec":   map[string]any{"nodeName": "n", "readinessGates": readiness},
		"status": map[string]any{"phase": "Running"},
	}}
	if len(conditions) > 0 {
		obj.Object["status"].(map[string]any)["conditions"] = conditions
	}
	obj.SetNamespace(namespace)
	obj.SetName("web")
	obj.SetUID(types.UID(uid))
	return obj
}

type observedPod = Observation

// seen is a pod that a ReplicaSet below made, whose template names gates.
func seen(template []string, above, below []any) observedPod {
	kind, _ := workload.Builtin().ByResource(schema.GroupResource{Resource: "pods"})
	all := []string{gate, "added.example.com/below", "Ready"}
	s := observedPod{
		Kind: kind, Namespace: "shop", Physical: gatedPod("demo-shop-1", "below", all, below...), Logical: gatedPod("shop", "above", all, above...),
		Owner:  func(types.UID) (Owner, bool) { return Owner{Name: "web", UID: "rs-above", Gates: template}, true },
		Refers: func(types.UID) (types.UID, bool) { return "", false },
	}
	s.Logical.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs-above", Controller: ptr.To(true)}})
	s.Physical.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs-below", Controller: ptr.To(true)}})
	s.Logical.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: "below"})
	return s
}

func conditionsOf(obj *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, c := range list(field(obj.Object, "status"), "conditions") {
		out[c["type"].(string)] = c["status"].(string)
	}
	return out
}

// settle does what Observe says until there is nothing to do, and fails if that does
// not end.
func settle(t interface{ Fatalf(string, ...any) }, s *observedPod) (writes int) {
	for range 6 {
		actions := Observe(*s)
		if len(actions) == 0 {
			return writes
		}
		r := actions[0]
		switch do := r.Verb; do {
		case UpdateUp:
			s.Logical = r.Object
		case PatchStatus:
			if r.Object.GetUID() != s.Physical.GetUID() {
				t.Fatalf("the patch names %q", r.Object.GetUID())
			}
			s.Physical = patched(t, s.Physical, r.Object)
		default:
			t.Fatalf("%s", do)
		}
		writes++
	}
	t.Fatalf("no end")
	return writes
}

func patched(t interface{ Fatalf(string, ...any) }, obj, patch *unstructured.Unstructured) *unstructured.Unstructured {
	before, err := json.Marshal(obj.Object)
	if err != nil {
		t.Fatalf("%v", err)
	}
	change, err := json.Marshal(patch.Object)
	if err != nil {
		t.Fatalf("%v", err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, change, corev1.Pod{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(after); err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func TestConditionsGoTheWayTheTableOfGatesSays(t *testing.T) {
	t.Parallel()
	const added = "added.example.com/below"
	type sides struct{ Above, Below map[string]string }
	for title, c := range map[string]struct {
		template     []string
		above, below []any
		want         sides
	}{
		"Kubernetes' own is mirrored":       {nil, nil, []any{condition("Ready", "True")}, sides{map[string]string{"Ready": "True"}, map[string]string{"Ready": "True"}}},
		"Kubernetes' own cannot be forged":  {[]string{gate}, []any{condition("Ready", "True")}, []any{condition("Ready", "False")}, sides{map[string]string{"Ready": "False"}, map[string]string{"Ready": "False"}}},
		"one that no gate names is below's": {[]string{gate}, []any{condition("x.example.com/y", "True")}, nil, sides{map[string]string{}, map[string]string{}}},
		"a gate that was added below":       {[]string{gate}, []any{condition(added, "False")}, []any{condition(added, "True")}, sides{map[string]string{added: "True"}, map[string]string{added: "True"}}},
		"a gate of the template, set below": {[]string{gate}, nil, []any{condition(gate, "True")}, sides{map[string]string{}, map[string]string{gate: "True"}}},
		"a gate of the template, set above": {[]string{gate}, []any{condition(gate, "True")}, nil, sides{map[string]string{gate: "True"}, map[string]string{gate: "True"}}},
		"set above and otherwise below":     {[]string{gate}, []any{condition(gate, "False")}, []any{condition(gate, "True"), condition("Ready", "True")}, sides{map[string]string{gate: "False", "Ready": "True"}, map[string]string{gate: "False", "Ready": "True"}}},
		"set alike":                         {[]string{gate}, []any{condition(gate, "True")}, []any{condition(gate, "True")}, sides{map[string]string{gate: "True"}, map[string]string{gate: "True"}}},
		"nothing is lost beside Kubernetes' own": {[]string{gate}, []any{condition(gate, "True")}, []any{condition("Initialized", "True"), condition("Ready", "True")}, sides{
			map[string]string{gate: "True", "Initialized": "True", "Ready": "True"}, map[string]string{gate: "True", "Initialized": "True", "Ready": "True"}}},
	} {
		s := seen(c.template, c.above, c.below)
		settle(t, &s)
		if diff := cmp.Diff(c.want, sides{conditionsOf(s.Logical), conditionsOf(s.Physical)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", title, diff)
		}
	}
}

func TestAGateThatIsNamedLikeAConditionOfKubernetesIsNone(t *testing.T) {
	t.Parallel()
	owner := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"readinessGates": []any{map[string]any{"conditionType": "Ready"}, map[string]any{"conditionType": gate}, map[string]any{"conditionType": "DisruptionTarget"}, map[string]any{}},
	}}}}}
	if diff := cmp.Diff([]string{gate}, TemplateGates(owner)); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}

func TestAPodOfAUserCarriesItsGatesDownAndKeepsThemAbove(t *testing.T) {
	t.Parallel()
	logical := gatedPod("shop", "u", []string{gate, "Ready"}, condition(gate, "True"), condition("Ready", "True"))
	physical := gatedPod("demo-shop-1", "p", []string{gate, "Ready"}, condition("Ready", "False"))
	patch := CopiedGatesBelow(logical, physical)
	if patch == nil || patch.GetUID() != "p" {
		t.Fatalf("patch %v", patch)
	}
	if diff := cmp.Diff(map[string]string{gate: "True"}, conditionsOf(patch)); diff != "" {
		t.Errorf("what goes down (-want +got):\n%s", diff)
	}
	if again := CopiedGatesBelow(logical, patched(t, physical, patch)); again != nil {
		t.Errorf("what is there goes down again: %v", again)
	}
	going := physical.DeepCopy()
	now := metav1.Now()
	going.SetDeletionTimestamp(&now)
	if patch := CopiedGatesBelow(logical, going); patch != nil {
		t.Errorf("a pod that is going is changed: %v", patch)
	}

	kind, _ := workload.Builtin().ByResource(schema.GroupResource{Resource: "pods"})
	logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`})
	observed := &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}
	observed.Spec.Object.UID = "u"
	raw, err := json.Marshal(map[string]any{"phase": "Running", "conditions": []any{condition("Ready", "False"), condition(gate, "False")}})
	if err != nil {
		t.Fatal(err)
	}
	observed.Status.Observed = &runtime.RawExtension{Raw: raw}
	status, changed := Summarize(kind, logical, []*placementv1alpha1.Copy{observed}, someTime)
	if !changed {
		t.Error("the status of below is not mirrored")
	}
	got := conditionsOf(&unstructured.Unstructured{Object: map[string]any{"status": status}})
	if diff := cmp.Diff(map[string]string{"Ready": "False", gate: "True"}, got); diff != "" {
		t.Errorf("what is mirrored (-want +got):\n%s", diff)
	}
}

func TestAConditionThatSomebodySetAboveStaysUntilTheCopyHasIt(t *testing.T) {
	t.Parallel()
	const own = "example.io/Foo"
	kind, _ := workload.Builtin().ByResource(schema.GroupResource{Resource: "pods"})
	for name, c := range map[string]struct {
		manager, subresource string
		above, below, want   map[string]string
	}{
		"set above":                {"me", "status", map[string]string{own: "True"}, nil, map[string]string{own: "True"}},
		"below has it too":         {"me", "status", map[string]string{own: "True"}, map[string]string{own: "False"}, map[string]string{own: "False"}},
		"it was mirrored":          {FieldManager, "status", map[string]string{own: "True"}, nil, map[string]string{}},
		"owned, but not in status": {"me", "", map[string]string{own: "True"}, nil, map[string]string{}},
		"Kubernetes' own":          {"me", "status", map[string]string{"Ready": "True"}, nil, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(all map[string]string) (out []any) {
				for name, status := range all {
					out = append(out, condition(name, status))
				}
				return out
			}
			logical := gatedPod("shop", "u", nil, list(c.above)...)
			logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`})
			owns := metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"example.io/Foo\"}":{".":{},"f:status":{}},"k:{\"type\":\"Ready\"}":{".":{}}}}}`)
			logical.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: c.manager, Operation: "Apply", Subresource: c.subresource, FieldsType: "FieldsV1", FieldsV1: owns}})
			observed := &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}
			observed.Spec.Object.UID = "u"
			raw, err := json.Marshal(map[string]any{"phase": "Running", "conditions": list(c.below)})
			if err != nil {
				t.Fatal(err)
			}
			observed.Status.Observed = &runtime.RawExtension{Raw: raw}
			status, _ := Summarize(kind, logical, []*placementv1alpha1.Copy{observed}, someTime)
			if diff := cmp.Diff(c.want, conditionsOf(&unstructured.Unstructured{Object: map[string]any{"status": status}})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever both sides set and in whatever order, they come to rest, at once, and
// nothing of Kubernetes' own was changed below.
func TestGatesComeToRest(t *testing.T) {
	t.Parallel()
	names := []string{gate, "added.example.com/below", "Ready", "Initialized", "x.example.com/y"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(side string) (out []any) {
			for _, name := range rapid.Permutation(names).Draw(t, side+" order") {
				if status := rapid.SampledFrom([]string{"", "True", "False", "Unknown"}).Draw(t, side+" "+name); status != "" {
					out = append(out, condition(name, status))
				}
			}
			return out
		}
		s := seen([]string{gate}, draw("above"), draw("below"))
		before := conditionsOf(s.Physical)
		if writes := settle(t, &s); writes > 3 {
			t.Fatalf("%d writes", writes)
		}
		after := conditionsOf(s.Physical)
		delete(before, gate)
		delete(after, gate)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("below (-before +after):\n%s", diff)
		}
	})
}
