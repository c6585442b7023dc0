package syncer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// ReasonResizeRefused is the reason of the event on a pod that is not resized below, and of a
// Copy of one.
const ReasonResizeRefused = "ResizeRefused"

// containerLists are the fields of a pod whose containers can be resized.
var containerLists = []string{"containers", "initContainers"}

// ResizedBelow is the patch of the subresource resize that gives the containers of a pod which a
// controller below made the processors and memory that somebody gave them above; nil if they have
// them. The pod was mirrored as it was below, and nothing but the subresource changes that on either
// side.
//
//	the resources of a container above     below      do
//	are the same                           any        nothing
//	differ                                 somebody   nothing: what is resized below is not shown above
//	                                       resized it
//	                                       nobody     resize it
func ResizedBelow(kind workload.Kind, logical, physical *unstructured.Unstructured) *unstructured.Unstructured {
	if !kind.IsPod() || logical == nil || physical == nil || logical.GetDeletionTimestamp() != nil || physical.GetDeletionTimestamp() != nil {
		return nil
	}
	return resizePatch(field(logical.Object, "spec"), physical, func(list, name string) bool { return !resizedByOthers(physical, list, name) })
}

// resizedCopy is that of the copy of a user's pod: what it is to be differs from it on purpose,
// and nothing but this subresource can change it.
func resizedCopy(kind workload.Kind, desired, physical *unstructured.Unstructured) *unstructured.Unstructured {
	if !kind.IsPod() {
		return nil
	}
	return resizePatch(field(desired.Object, "spec"), physical, func(string, string) bool { return true })
}

func resizePatch(wanted map[string]any, physical *unstructured.Unstructured, ours func(list, name string) bool) *unstructured.Unstructured {
	spec := map[string]any{}
	for _, containers := range containerLists {
		below := map[any]map[string]any{}
		for _, c := range list(field(physical.Object, "spec"), containers) {
			below[c["name"]] = c
		}
		var changed []any
		for _, c := range list(wanted, containers) {
			name, _ := c["name"].(string)
			if now, ok := below[name]; ok && ours(containers, name) {
				if resources := resizedResources(field(c, "resources"), field(now, "resources")); resources != nil {
					changed = append(changed, map[string]any{"name": name, "resources": resources})
				}
			}
		}
		if changed != nil {
			spec[containers] = changed
		}
	}
	if len(spec) == 0 {
		return nil
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"uid": string(physical.GetUID())}, // another pod of the name is left alone
		"spec":     spec,
	}}
}

// resizedResources are the processors and memory that are wanted and not there; what nobody
// says above, a default of the physical cluster has set.
func resizedResources(wanted, now map[string]any) map[string]any {
	out := map[string]any{}
	for _, part := range []string{"requests", "limits"} {
		differs := map[string]any{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			value, said := field(wanted, part)[string(name)]
			if said && !sameQuantity(value, field(now, part)[string(name)]) {
				differs[string(name)] = value
			}
		}
		if len(differs) > 0 {
			out[part] = differs
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func sameQuantity(a, b any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return true // it is none: nothing to ask for
	}
	y, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && x.Cmp(y) == 0
}

// resizedByOthers says that somebody else than this control plane resized a container below.
func resizedByOthers(physical *unstructured.Unstructured, containers, name string) bool {
	return ownedBySomebodyBut(WantedManager, physical, "resize", "f:spec", "f:"+containers, itemKey("name", name), "f:resources")
}

// resize is what Observe does about it. The copy of a user's pod is for who copies it.
func (s Observation) resize() []Action {
	if s.isPod() && s.isCopy() {
		return nil
	}
	if patch := ResizedBelow(s.Kind, s.Logical, s.Physical); patch != nil {
		return []Action{{Verb: Resize, Object: patch}}
	}
	return nil
}
