package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

// rootCA is the ConfigMap that each namespace has, with the same certificate.
const rootCA = "kube-root-ca.crt"

const (
	// mostCertificates is how many bytes of certificates the ConfigMap has at most; one
	// that somebody else wrote is not shared.
	mostCertificates = 16 << 10
	// mostData and mostSettings are up to how many bytes and entries the data of a
	// ConfigMap are shared: applications have equal ones wherever they run.
	mostData, mostSettings = 1 << 10, 16
	// mostAttributes is how many attributes that differ are remembered for a while.
	mostAttributes = 1 << 12
)

// sharer has what objects in watch caches share.
type sharer struct {
	maps         *sharing.Maps
	attributes   sharing.Maps
	fields       sharing.Fields
	certificates sharing.Maps
	data         sharing.Maps
	// finalizers are those of a Namespace, as all have them.
	finalizers []core.FinalizerName
}

func newSharer(all *sharing.Maps) *sharer {
	return &sharer{
		maps: all, attributes: sharing.Maps{Most: mostAttributes},
		certificates: sharing.Maps{MostBytes: mostCertificates, Most: 64},
		data:         sharing.Maps{MostBytes: mostData, MostEntries: mostSettings, Most: 1 << 10},
		finalizers:   []core.FinalizerName{core.FinalizerKubernetes},
	}
}

// attrs wraps the function that the watch cache calls once for every object that
// enters it, while nobody else has it: equal labels and annotations become one
// map, equal managed fields one set. What leaves a watch cache is shared by all its
// readers already, so nobody changes these; what is read to be changed comes from
// etcd, or as a deep copy.
func (s *sharer) attrs(inner storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		if isNowhere(obj) {
			return inner(obj) // it is in many events at a time
		}
		_, made := obj.(*unstructured.Unstructured) // makes its maps for each call
		if m, err := meta.Accessor(obj); err == nil && !made {
			m.SetLabels(s.maps.Intern(m.GetLabels()))
			m.SetAnnotations(s.maps.Intern(m.GetAnnotations()))
			m.SetName(s.fields.Text(m.GetName()))
			m.SetNamespace(s.fields.Text(m.GetNamespace()))
			m.SetManagedFields(s.fields.Share(m.GetManagedFields()))
		}
		switch o := obj.(type) {
		case *core.ConfigMap:
			if o.Name == rootCA {
				o.Data = s.certificates.Intern(o.Data)
			} else {
				o.Data = s.data.Intern(o.Data)
			}
		case *core.Namespace:
			if slices.Equal(o.Spec.Finalizers, s.finalizers) {
				o.Spec.Finalizers = s.finalizers
			}
			o.Status.Phase = core.NamespacePhase(s.fields.Text(string(o.Status.Phase)))
		}
		return inner(obj)
	}
}
