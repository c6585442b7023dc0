package storage

import (
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

// mostCertificates is how many bytes of certificates the ConfigMap has at most; one
// that somebody else wrote is not shared.
const mostCertificates = 16 << 10

// sharer has what objects in watch caches share.
type sharer struct {
	maps         *sharing.Maps
	fields       sharing.Fields
	certificates sharing.Maps
}

func newSharer(all *sharing.Maps) *sharer {
	return &sharer{maps: all, certificates: sharing.Maps{MostBytes: mostCertificates, Most: 64}}
}

// attrs wraps the function that the watch cache calls once for every object that
// enters it, while nobody else has it: equal labels and annotations become one
// map, equal managed fields one set. What leaves a watch cache is shared by all its
// readers already, so nobody changes these; what is read to be changed comes from
// etcd, or as a deep copy.
func (s *sharer) attrs(inner storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		_, made := obj.(*unstructured.Unstructured) // makes its maps for each call
		if m, err := meta.Accessor(obj); err == nil && !made {
			m.SetLabels(s.maps.Intern(m.GetLabels()))
			m.SetAnnotations(s.maps.Intern(m.GetAnnotations()))
			m.SetNamespace(s.fields.Text(m.GetNamespace()))
			s.fields.Share(m.GetManagedFields())
		}
		if c, ok := obj.(*core.ConfigMap); ok && c.Name == rootCA {
			c.Data = s.certificates.Intern(c.Data)
		}
		return inner(obj)
	}
}
