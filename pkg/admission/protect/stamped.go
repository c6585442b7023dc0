package protect

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Restamped reports whether two states of an object differ in nothing but what the
// system writes: its keys, the managed fields, the resource version.
func Restamped(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && reflect.DeepEqual(unstamped(a), unstamped(b))
}

func unstamped(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	Create(out)
	out.SetManagedFields(nil)
	out.SetResourceVersion("")
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if value, ok, _ := unstructured.NestedFieldNoCopy(out.Object, "metadata", field); ok && reflect.ValueOf(value).Len() == 0 {
			unstructured.RemoveNestedField(out.Object, "metadata", field)
		}
	}
	return out.Object
}
