package storage

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

// shared wraps the function that the watch cache calls once for every object that
// enters it, while nobody else has it: equal labels and annotations become one
// map. What leaves a watch cache is shared by all its readers already, so nobody
// changes these maps; what is read to be changed comes from etcd, or as a deep
// copy.
func shared(all *sharing.Maps, inner storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		_, made := obj.(*unstructured.Unstructured) // makes its maps for each call
		if m, err := meta.Accessor(obj); err == nil && !made {
			m.SetLabels(all.One(m.GetLabels()))
			m.SetAnnotations(all.One(m.GetAnnotations()))
		}
		return inner(obj)
	}
}
