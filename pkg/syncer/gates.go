package syncer

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A readiness gate names a condition of pods that somebody beside the kubelet sets.
// Who runs in the logical cluster sets it there; the kubelet that waits for it reads
// it on the physical cluster. Who owns a condition is decided by who named it:
//
//	condition                     above  below     mirrored  goes down
//	of Kubernetes itself          any    any       below's   nothing
//	that no gate names            any    set       below's   nothing
//	that no gate names; who set   set    none      above's   nothing
//	it above still owns it
//	of a gate that was added      any    any       below's   nothing
//	below (not in the template)
//	of a gate of the template     none   any       nothing   nothing
//	of a gate of the template     set    another   above's   above's
//	of a gate of the template     set    the same  above's   nothing
//
// The template is what a user wrote: the pod itself, or that of its controller. So
// there is one owner at any time, whatever was seen first, and neither side ever
// writes what came from the other. A condition of Kubernetes' own stays its own even
// if a gate names it: nobody makes a pod Ready from above.

// kubernetesConditions are set by the kubelet, the scheduler and the controllers of
// a physical cluster.
var kubernetesConditions = []corev1.PodConditionType{
	corev1.ContainersReady, corev1.PodInitialized, corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget,
	corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting,
}

// TemplateGates are the readiness gates that the pod template of an owner names.
func TemplateGates(owner *unstructured.Unstructured) []string {
	return gatesOf(field(field(field(owner.Object, "spec"), "template"), "spec"))
}

// gatesOf are the gates of the spec of a pod that may be set from above.
func gatesOf(spec map[string]any) []string {
	var out []string
	for _, gate := range list(spec, "readinessGates") {
		name, _ := gate["conditionType"].(string)
		if name != "" && !slices.Contains(kubernetesConditions, corev1.PodConditionType(name)) {
			out = append(out, name)
		}
	}
	return out
}

// gatesBy are those of the template of a mirrored pod, which its controller has.
func gatesBy(physical *unstructured.Unstructured, ownerOf func(types.UID) (Owner, bool)) []string {
	if ref := metav1.GetControllerOfNoCopy(physical); ref != nil {
		owner, _ := ownerOf(ref.UID)
		return owner.Gates
	}
	return nil
}

// setAbove are the conditions of a user's pod that no gate names, that somebody else
// than the server has set and owns, and that the copy does not have.
func setAbove(logical *unstructured.Unstructured, status map[string]any) []string {
	below := map[string]bool{}
	for _, c := range list(status, "conditions") {
		name, _ := c["type"].(string)
		below[name] = true
	}
	var out []string
	for _, c := range list(field(logical.Object, "status"), "conditions") {
		name, _ := c["type"].(string)
		if !below[name] && !slices.Contains(kubernetesConditions, corev1.PodConditionType(name)) && ownedByOthers(logical, name) {
			out = append(out, name)
		}
	}
	return out
}

// ownedByOthers says that somebody else than the server owns a condition.
func ownedByOthers(logical *unstructured.Unstructured, name string) bool {
	return ownedBySomebodyBut(FieldManager, logical, "status", "f:status", "f:conditions", itemKey("type", name))
}

// itemKey is that of an item of a list in managed fields.
func itemKey(field, value string) string {
	key, err := json.Marshal(map[string]string{field: value})
	if err != nil {
		panic(err) // no string can fail to encode
	}
	return "k:" + string(key)
}

// ownedBySomebodyBut says that another manager owns, by a subresource, what is at a path.
func ownedBySomebodyBut(manager string, obj *unstructured.Unstructured, subresource string, path ...string) bool {
	last := len(path) - 1
	for _, e := range obj.GetManagedFields() {
		if e.Subresource != subresource || e.Manager == manager || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := descend(fields, path[:last])[path[last]]; owns {
			return true
		}
	}
	return false
}

// keepGates leaves in a mirrored status the conditions of gates as they are
// above.
func keepGates(status, current map[string]any, gates []string) {
	if len(gates) == 0 {
		return
	}
	above := map[string]map[string]any{}
	for _, c := range list(current, "conditions") {
		if name, _ := c["type"].(string); slices.Contains(gates, name) {
			above[name] = c
		}
	}
	var conditions []any
	for _, c := range list(status, "conditions") {
		name, _ := c["type"].(string)
		if !slices.Contains(gates, name) {
			conditions = append(conditions, c)
			continue
		}
		if own, ok := above[name]; ok {
			conditions = append(conditions, deepCopy(own))
			delete(above, name)
		}
	}
	for _, name := range gates {
		if own, ok := above[name]; ok {
			conditions = append(conditions, deepCopy(own))
			delete(above, name)
		}
	}
	if len(conditions) == 0 {
		delete(status, "conditions")
		return
	}
	status["conditions"] = conditions
}

// GatesBelow is the strategic merge patch of the status of a pod that carries the
// conditions of gates down; nil if there is nothing to carry.
func GatesBelow(logical, physical *unstructured.Unstructured, gates []string) *unstructured.Unstructured {
	if len(gates) == 0 {
		return nil
	}
	below := map[string]map[string]any{}
	for _, c := range list(field(physical.Object, "status"), "conditions") {
		name, _ := c["type"].(string)
		below[name] = c
	}
	var conditions []any
	for _, c := range list(field(logical.Object, "status"), "conditions") {
		name, _ := c["type"].(string)
		if !slices.Contains(gates, name) || sameCondition(c, below[name]) {
			continue
		}
		c = deepCopy(c).(map[string]any)
		delete(c, "observedGeneration") // that of another object
		conditions = append(conditions, c)
	}
	if len(conditions) == 0 {
		return nil
	}
	return statusPatch(physical.GetUID(), conditions)
}

// CopiedGatesBelow is GatesBelow for the copy of a pod of a user.
func CopiedGatesBelow(logical, physical *unstructured.Unstructured) *unstructured.Unstructured {
	if logical == nil || physical == nil || logical.GetDeletionTimestamp() != nil || physical.GetDeletionTimestamp() != nil {
		return nil
	}
	return GatesBelow(logical, physical, gatesOf(field(logical.Object, "spec")))
}

// statusPatch names the UID: another pod of the name is left alone.
func statusPatch(uid types.UID, conditions []any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"uid": string(uid)},
		"status":   map[string]any{"conditions": conditions},
	}}
}

// sameCondition compares what a condition says, not since when.
func sameCondition(a, b map[string]any) bool {
	for _, name := range []string{"status", "reason", "message"} {
		x, _ := a[name].(string)
		y, _ := b[name].(string)
		if x != y {
			return false
		}
	}
	return b != nil
}
