package stamp

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Restamp returns the JSON merge patch that makes the change to the stamp of an
// object as it was read; nil if change changes nothing. The patch names UID and
// resource version, so that another object of the name, or a newer state, is a
// conflict and decided upon anew. change sees a copy of the metadata.
func Restamp(obj metav1.Object, change func(metav1.Object)) []byte {
	stamped := Metadata(obj)
	change(stamped)
	return patch(obj, stamped)
}

// Metadata is what a stamp looks at and changes, as a copy.
func Metadata(obj metav1.Object) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		DeletionTimestamp: obj.GetDeletionTimestamp(),
		Labels:            obj.GetLabels(), Annotations: obj.GetAnnotations(), Finalizers: obj.GetFinalizers(),
		OwnerReferences: slices.Clone(obj.GetOwnerReferences()),
	}
}

func patch(before, after metav1.Object) []byte {
	metadata := map[string]any{}
	annotations := map[string]any{}
	for key, value := range after.GetAnnotations() {
		if was, ok := before.GetAnnotations()[key]; placementv1alpha1.IsSystemKey(key) && (!ok || was != value) {
			annotations[key] = value
		}
	}
	for key := range before.GetAnnotations() {
		if _, ok := after.GetAnnotations()[key]; placementv1alpha1.IsSystemKey(key) && !ok {
			annotations[key] = nil // takes it off
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if !slices.Equal(before.GetFinalizers(), after.GetFinalizers()) {
		metadata["finalizers"] = append([]string{}, after.GetFinalizers()...) // never null
	}
	if len(before.GetOwnerReferences()) != len(after.GetOwnerReferences()) {
		metadata["ownerReferences"] = after.GetOwnerReferences()
	}
	if len(metadata) == 0 {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = before.GetUID(), before.GetResourceVersion()
	b, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // maps, strings and owner references cannot fail to encode
	}
	return b
}
