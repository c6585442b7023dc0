package defaults

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// resourceVersion of an object that was never stored: older than any that was.
const resourceVersion = 1

// space is the name space of UIDs of defaults.
var space = uuid.MustParse("6f1f5f3e-6b0e-4c52-9f0c-0f6c3e3f6a55")

// Set is the defaults of one resource. It does not change.
type Set struct {
	resource schema.GroupResource
	names    []string // sorted
	objects  map[string]runtime.Object
}

// NewSet makes a Set of objects without a namespace, in the type that the
// storage of the resource is about.
func NewSet(resource schema.GroupResource, objects ...runtime.Object) (*Set, error) {
	s := &Set{resource: resource, objects: map[string]runtime.Object{}}
	for _, obj := range objects {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("reading a default of %s: %w", resource, err)
		}
		s.objects[m.GetName()] = obj
	}
	s.names = slices.Sorted(maps.Keys(s.objects))
	return s, nil
}

func (s *Set) has(name string) bool { return s.objects[name] != nil }

// in returns the default as an object of a logical cluster that was made at born;
// nil if there is none.
func (s *Set) in(c logicalcluster.Name, name string, born metav1.Time) runtime.Object {
	obj := s.objects[name]
	if obj == nil {
		return nil
	}
	obj = obj.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil // NewSet read it
	}
	annotations := maps.Clone(m.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[logicalcluster.AnnotationKey] = c.String()
	m.SetAnnotations(annotations)
	m.SetUID(types.UID(uuid.NewSHA1(space, fmt.Appendf(nil, "%s|%d|%s|%s", c, born.Unix(), s.resource, name)).String()))
	m.SetResourceVersion(fmt.Sprint(resourceVersion))
	m.SetCreationTimestamp(born)
	return obj
}

// Options say what the overlay asks of the server.
type Options struct {
	// Born says since when a logical cluster exists, and so its defaults.
	Born func(context.Context, logicalcluster.Name) metav1.Time
	// Raw says whether lists and watches of the request are to show only what is
	// stored.
	Raw func(context.Context) bool
}
