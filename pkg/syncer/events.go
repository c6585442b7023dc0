package syncer

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Involved is what an event below is about.
func Involved(event *unstructured.Unstructured) (namespace string, uid types.UID) {
	ref := field(event.Object, "involvedObject")
	namespace, _ = ref["namespace"].(string)
	text, _ := ref["uid"].(string)
	return namespace, types.UID(text)
}

// EventUp turns an event of the physical cluster into one of the logical
// namespace, about the object that stands for the one that it is about.
func EventUp(event *unstructured.Unstructured, namespace string, about Owner) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: deepCopy(event.Object).(map[string]any)}
	annotations := userKeys(out.GetAnnotations())
	out.Object["metadata"] = map[string]any{"name": event.GetName(), "namespace": namespace}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[placementv1alpha1.UIDAnnotation] = string(event.GetUID())
	out.SetAnnotations(annotations)
	ref := field(out.Object, "involvedObject")
	ref["namespace"], ref["name"], ref["uid"] = namespace, about.Name, string(about.UID)
	delete(ref, "resourceVersion")
	delete(out.Object, "related") // names an object of the physical cluster
	return out
}
