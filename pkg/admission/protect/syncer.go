package protect

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// What a syncer may set of the metadata of an object, beside the keys of the system,
// which are the server's:
//
//	                         of what it mirrors or records   by a status of it
//	finalizers               none: they would hold what      none
//	                         users delete
//	labels, annotations      any but those of believed       none
//	owners                   any                             none
//
// Whatever it may not set stays as it was.

// believed are the keys, outside of the domain of the system, that the server itself
// acts upon; nil values means whatever is written there.
var believed = map[string][]string{
	placementv1alpha1.PhysicalClusterAnnotation: nil,
	placementv1alpha1.ApproveRolloutAnnotation:  nil,
	// What it manages is what a user wrote: see the controller of Endpoints.
	discoveryv1.LabelManagedBy: {"endpointslicemirroring-controller.k8s.io"},
}

// BySyncer gives an object that a syncer writes what it may not set of old, which is nil
// if the object is new. That it takes our finalizer off what is being deleted is for
// UpdateObserved.
func BySyncer(obj, old metav1.Object, status bool) {
	if old == nil {
		old = &metav1.ObjectMeta{}
	}
	if status {
		obj.SetLabels(old.GetLabels())
		obj.SetAnnotations(old.GetAnnotations())
		obj.SetOwnerReferences(old.GetOwnerReferences())
		obj.SetFinalizers(old.GetFinalizers())
		return
	}
	if !slices.Equal(obj.GetFinalizers(), old.GetFinalizers()) {
		obj.SetFinalizers(old.GetFinalizers())
	}
	obj.SetLabels(withoutBelieved(obj.GetLabels(), old.GetLabels()))
	obj.SetAnnotations(withoutBelieved(obj.GetAnnotations(), old.GetAnnotations()))
}

// withoutBelieved is m, or a copy of it in which believed keys are as in old.
func withoutBelieved(m, old map[string]string) map[string]string {
	out := m
	for key, values := range believed {
		is, was := m[key], old[key]
		if is == was || values != nil && !slices.Contains(values, is) && !slices.Contains(values, was) {
			continue
		}
		if out = maps.Clone(out); out == nil { // objects in admission may share theirs
			out = map[string]string{}
		}
		if out[key] = was; was == "" {
			delete(out, key)
		}
	}
	return out
}
