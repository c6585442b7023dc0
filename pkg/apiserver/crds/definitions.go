package crds

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"weak"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/sharing"
)

// Shape identifies what a definition serves: equal shapes share everything.
type Shape [sha256.Size]byte

// Definition is a CustomResourceDefinition without the schemas of its versions, and the
// shape of it. The versions in its spec are shared with equal ones: they must not be
// changed. Full has the schemas.
type Definition struct {
	*apiextensionsv1.CustomResourceDefinition
	Shape Shape
	// schema is the shape without whether the definition is being deleted.
	schema Shape
	// shown is the shape of what discovery and OpenAPI show: all but how objects are
	// converted, which may name a Service of the logical cluster.
	shown Shape
	// size is how many bytes the versions have.
	size int64
	// versions are those with schemas, compressed.
	versions *sharedVersions
}

// Resource is what the definition defines.
func (d *Definition) Resource() schema.GroupResource {
	return schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
}

// Served reports whether requests are answered: from the acceptance of the names
// on, as upstream, until the definition is gone.
func (d *Definition) Served() bool {
	return apihelpers.IsCRDConditionTrue(d.CustomResourceDefinition, apiextensionsv1.Established) ||
		apihelpers.IsCRDConditionTrue(d.CustomResourceDefinition, apiextensionsv1.NamesAccepted)
}

// Established reports whether discovery shows the definition.
func (d *Definition) Established() bool {
	return apihelpers.IsCRDConditionTrue(d.CustomResourceDefinition, apiextensionsv1.Established)
}

// Indexes of Definitions.
const (
	byGroup    = "group"    // cluster|group
	byResource = "resource" // resource.group, over all logical clusters
	byShape    = "shape"
	byShown    = "shown"
)

// Definitions knows what every logical cluster defines.
type Definitions struct {
	*controller.Informer[*Definition]
	schemas schemas
	maps    *sharing.Maps
	texts   texts

	mu      sync.Mutex
	waiters map[controller.Request]map[*waiter]struct{}
}

// NewDefinitions makes the informer; client is scoped by context, and maps are shared with what others keep.
func NewDefinitions(client clientset.Interface, maps *sharing.Maps) *Definitions {
	d := &Definitions{maps: maps, schemas: schemas{shared: map[Shape]weak.Pointer[sharedVersions]{}}, waiters: map[controller.Request]map[*waiter]struct{}{}}
	d.Informer = controller.NewInformer("customresourcedefinitions", &apiextensionsv1.CustomResourceDefinition{},
		controller.Lists(client.ApiextensionsV1().CustomResourceDefinitions()), controller.InformerOptions[*Definition]{
			Transform: d.transform,
			Indexers: map[string]func(*Definition) []string{
				byGroup:    func(d *Definition) []string { return []string{groupKey(logicalcluster.From(d), d.Spec.Group)} },
				byResource: func(d *Definition) []string { return []string{d.Name} },
				byShape:    func(d *Definition) []string { return []string{string(d.Shape[:])} },
				byShown:    func(d *Definition) []string { return []string{string(d.shown[:])} },
			},
		})
	d.Handle(d.wake)
	return d
}

// Find returns the definition of a resource in a logical cluster.
func (d *Definitions) Find(c logicalcluster.Name, gr schema.GroupResource) (*Definition, bool) {
	return d.Get(controller.Request{Cluster: c, Name: gr.String()})
}

// Stored is the version in which a logical cluster keeps the objects of a resource that it
// defines; empty if it defines none.
func (d *Definitions) Stored(c logicalcluster.Name, gr schema.GroupResource) string {
	definition, ok := d.Find(c, gr)
	if !ok {
		return ""
	}
	for _, v := range definition.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// InGroup returns the definitions of a group in a logical cluster.
func (d *Definitions) InGroup(c logicalcluster.Name, group string) []*Definition {
	return d.ByIndex(byGroup, groupKey(c, group))
}

// Everywhere returns the definitions of a resource in all logical clusters.
func (d *Definitions) Everywhere(gr schema.GroupResource) []*Definition {
	return d.ByIndex(byResource, gr.String())
}

func groupKey(c logicalcluster.Name, group string) string { return c.String() + "|" + group }

// transform keeps what serving needs.
func (d *Definitions) transform(obj apiruntime.Object) (*Definition, error) {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("%T is no CustomResourceDefinition", obj)
	}
	crd.ManagedFields = nil
	delete(crd.Annotations, corev1.LastAppliedConfigAnnotation)
	crd.Labels, crd.Annotations = d.maps.Intern(crd.Labels), d.maps.Intern(crd.Annotations)
	d.texts.kept(crd)
	return d.schemas.share(crd)
}

// shapes are hashes of what a definition says.
type shapes struct {
	// served is of all that the stock handler reads of it, schema of what does not change
	// when the definition is deleted. A webhook that is a service is one of its logical
	// cluster, and so is its handler.
	served, schema Shape
	// shown is of all that discovery and OpenAPI show, versions of its versions.
	shown, versions Shape
	// size is how many bytes the versions have.
	size int64
}

// shapesOf also returns the versions as they are hashed.
func shapesOf(crd *apiextensionsv1.CustomResourceDefinition) (s shapes, versions []byte, err error) {
	cluster, rest := "", crd.Spec
	if c := rest.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil && c.Webhook.ClientConfig.Service != nil {
		cluster = logicalcluster.From(crd).String()
	}
	conversion := rest.Conversion
	rest.Versions, rest.Conversion = nil, nil
	versions, err = json.Marshal(crd.Spec.Versions)
	if err != nil {
		return s, nil, fmt.Errorf("encoding the versions of CustomResourceDefinition %s: %w", crd.Name, err)
	}
	state := "serving"
	if !crd.DeletionTimestamp.IsZero() || apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		state = "terminating"
	}
	s.size, s.versions = int64(len(versions)), sha256.Sum256(versions)
	for _, of := range []struct {
		shape *Shape
		parts []any
	}{
		{&s.schema, []any{rest, conversion, crd.Status.AcceptedNames, cluster}},
		{&s.served, []any{rest, conversion, crd.Status.AcceptedNames, cluster, state}},
		{&s.shown, []any{rest, crd.Status.AcceptedNames, state}},
	} {
		data, err := json.Marshal(of.parts)
		if err != nil {
			return s, nil, fmt.Errorf("encoding CustomResourceDefinition %s: %w", crd.Name, err)
		}
		*of.shape = sha256.Sum256(append(data, s.versions[:]...))
	}
	return s, versions, nil
}

// waiter is called once, when the informer holds what satisfies it; nil is "gone".
type waiter struct {
	satisfied func(*Definition) bool
	call      func()
}

// Wait returns when the definition named by r satisfies f, or ctx ends. Absence
// is a nil definition.
func (d *Definitions) Wait(ctx context.Context, r controller.Request, f func(*Definition) bool) {
	done := make(chan struct{})
	defer d.when(r, f, func() { close(done) })()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// when calls call, once, when the definition named by r satisfies f, which may be
// at once. The result ends it. It costs no goroutine.
func (d *Definitions) when(r controller.Request, f func(*Definition) bool, call func()) (stop func()) {
	w := &waiter{satisfied: f, call: sync.OnceFunc(call)}
	d.mu.Lock()
	if d.waiters[r] == nil {
		d.waiters[r] = map[*waiter]struct{}{}
	}
	d.waiters[r][w] = struct{}{}
	d.mu.Unlock()
	if now, _ := d.Get(r); f(now) { // after it was registered: nothing is missed
		w.call()
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiters[r], w)
		if len(d.waiters[r]) == 0 {
			delete(d.waiters, r)
		}
	}
}

func (d *Definitions) wake(old, now *Definition) {
	obj := now
	if obj == nil {
		obj = old
	}
	r := controller.RequestFor(obj)
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiters[r] {
		if w.satisfied(now) {
			w.call()
			delete(d.waiters[r], w)
		}
	}
}

// version is the resource version as the number that it is in etcd.
func version(rv string) uint64 {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
