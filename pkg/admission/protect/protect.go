package protect

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Create drops the system's keys from an object that a user creates.
func Create(obj metav1.Object) {
	obj.SetLabels(restored(obj.GetLabels(), nil))
	obj.SetAnnotations(restored(obj.GetAnnotations(), nil))
	if slices.ContainsFunc(obj.GetFinalizers(), placementv1alpha1.IsSystemKey) {
		obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), placementv1alpha1.IsSystemKey))
	}
	disown(obj)
}

// Update gives an object that a user updates the system's keys of old.
func Update(obj, old metav1.Object) {
	obj.SetLabels(restored(obj.GetLabels(), old.GetLabels()))
	obj.SetAnnotations(restored(obj.GetAnnotations(), old.GetAnnotations()))
	if !slices.Equal(systemKeys(obj.GetFinalizers()), systemKeys(old.GetFinalizers())) {
		obj.SetFinalizers(restoredFinalizers(obj.GetFinalizers(), old.GetFinalizers()))
	}
	disown(obj)
}

// UpdateObserved is Update by the syncer that brought the object up: it may drop
// the note of what a user wants, and once the object is being deleted, it may take
// our finalizer off.
func UpdateObserved(obj, old metav1.Object) {
	released := Released(obj, old)
	_, wanted := obj.GetAnnotations()[placementv1alpha1.WantedAnnotation]
	Update(obj, old)
	if !wanted {
		obj.SetAnnotations(withoutWanted(obj.GetAnnotations()))
	}
	if released {
		obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
			return f == placementv1alpha1.CopiesFinalizer
		}))
	}
}

// Released reports whether an update takes our finalizer off what is being deleted.
func Released(obj, old metav1.Object) bool {
	return old.GetDeletionTimestamp() != nil && !slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer)
}

// Equal reports whether the system's keys of two objects are the same, save the
// notes of what a user wants, of what a name means, of ports and of templates, which the
// update itself makes.
func Equal(a, b metav1.Object) bool {
	return same(a.GetLabels(), b.GetLabels()) && same(withoutNotes(a.GetAnnotations()), withoutNotes(b.GetAnnotations())) &&
		slices.Equal(systemKeys(a.GetFinalizers()), systemKeys(b.GetFinalizers()))
}

func withoutNotes(m map[string]string) map[string]string {
	for _, note := range []string{placementv1alpha1.RuntimeHandlerAnnotation, placementv1alpha1.NodePortsAnnotation, placementv1alpha1.TemplatesAnnotation} {
		if _, ok := m[note]; ok {
			m = maps.Clone(m)
			delete(m, note)
		}
	}
	return withoutWanted(m)
}

func withoutWanted(m map[string]string) map[string]string {
	if _, ok := m[placementv1alpha1.WantedAnnotation]; !ok {
		return m
	}
	out := maps.Clone(m)
	delete(out, placementv1alpha1.WantedAnnotation)
	return out
}

// restored is m with the system's keys as in old. It is m itself if nothing has
// to change, so that an untouched object stays untouched.
func restored(m, old map[string]string) map[string]string {
	if same(m, old) {
		return m
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		if !placementv1alpha1.IsSystemKey(key) {
			out[key] = value
		}
	}
	for key, value := range old {
		if placementv1alpha1.IsSystemKey(key) {
			out[key] = value
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// same reports whether two maps agree on the system's keys.
func same(a, b map[string]string) bool { return contains(a, b) && contains(b, a) }

// contains reports whether m has the system's entries of part.
func contains(m, part map[string]string) bool {
	for key, value := range part {
		if !placementv1alpha1.IsSystemKey(key) {
			continue
		}
		if got, ok := m[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func systemKeys(list []string) []string {
	var out []string
	for _, key := range list {
		if placementv1alpha1.IsSystemKey(key) {
			out = append(out, key)
		}
	}
	return out
}

// restoredFinalizers puts the system's finalizers of old back to their places
// among those of the user, so that an update that only left them out changes
// nothing.
func restoredFinalizers(list, old []string) []string {
	out := slices.DeleteFunc(slices.Clone(list), placementv1alpha1.IsSystemKey)
	for i, key := range old {
		if placementv1alpha1.IsSystemKey(key) {
			out = slices.Insert(out, min(i, len(out)), key)
		}
	}
	return out
}
