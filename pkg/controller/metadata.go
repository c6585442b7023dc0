package controller

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

// OwnerIndex finds the dependents of an owner under UIDKey(cluster, owner). Every
// informer of Metadata has it.
const OwnerIndex = "atoll.owner"

// UIDKey is a value of indexes by UID: "cluster|uid".
func UIDKey(c logicalcluster.Name, uid types.UID) string { return c.String() + "|" + string(uid) }

// Metadata holds the metadata of all objects of some resources, over all
// logical clusters, without type, managedFields and the last applied
// configuration. Resources that users define come and go. What it returns is made
// for the call: the same object may have another address the next time.
type Metadata struct {
	client   metadata.Interface
	indexers map[string]func(*metav1.PartialObjectMetadata) []string
	sources  map[schema.GroupVersionResource]Source

	mu sync.RWMutex
	// entries are in the order in which they came; the slice never changes, it is
	// replaced.
	entries   []entry
	informers map[schema.GroupVersionResource]*Informer[*metav1.PartialObjectMetadata]
	versions  map[schema.GroupResource]schema.GroupVersionResource
	// followers are told of resources that are added.
	followers []func(schema.GroupVersionResource, *Informer[*metav1.PartialObjectMetadata])
	// run is the context of Run, nil before it.
	run context.Context //nolint:containedctx // informers that are added later live as long as those of Run
	// added are the resources that came after NewMetadata, with what stops them.
	added map[schema.GroupVersionResource]*addition
	// running counts the informers that were added.
	running sync.WaitGroup

	// maps has the labels and annotations of all objects.
	maps *sharing.Maps
	// omitted are annotations that are not kept.
	omitted []string
}

// entry is a resource with its informer.
type entry struct {
	gvr      schema.GroupVersionResource
	informer *Informer[*metav1.PartialObjectMetadata]
}

// addition is a resource that was added. Its start and its end come in order.
type addition struct {
	stop    context.CancelFunc
	stopped chan struct{}
}

// NewMetadata makes one informer for each resource; the indexers are added to
// each. Resources that have a source come from there and are not watched again.
func NewMetadata(client metadata.Interface, resources []schema.GroupVersionResource, indexers map[string]func(*metav1.PartialObjectMetadata) []string, sources ...Source) *Metadata {
	m := &Metadata{
		client:    client,
		sources:   make(map[schema.GroupVersionResource]Source, len(sources)),
		informers: make(map[schema.GroupVersionResource]*Informer[*metav1.PartialObjectMetadata], len(resources)),
		versions:  make(map[schema.GroupResource]schema.GroupVersionResource, len(resources)),
		indexers:  map[string]func(*metav1.PartialObjectMetadata) []string{OwnerIndex: ownerUIDs},
		added:     map[schema.GroupVersionResource]*addition{},
		maps:      &sharing.Maps{},
	}
	maps.Copy(m.indexers, indexers)
	for _, source := range sources {
		m.sources[source.resource] = source
	}
	for _, gvr := range resources {
		m.put(gvr)
	}
	return m
}

// Share has the labels and annotations be those of maps. It must come before Run.
func (m *Metadata) Share(maps *sharing.Maps) { m.maps = maps }

// Omit does not keep annotations, as they are large. It must come before Run.
func (m *Metadata) Omit(keys ...string) { m.omitted = keys }

// put makes the informer of one more resource; the lock is held.
func (m *Metadata) put(gvr schema.GroupVersionResource) *Informer[*metav1.PartialObjectMetadata] {
	informer := m.informer(gvr)
	m.entries = append(slices.Clone(m.entries), entry{gvr, informer})
	m.informers[gvr], m.versions[gvr.GroupResource()] = informer, gvr
	return informer
}

func (m *Metadata) informer(gvr schema.GroupVersionResource) *Informer[*metav1.PartialObjectMetadata] {
	name := "metadata/" + gvr.GroupResource().String()
	if source, ok := m.sources[gvr]; ok {
		return source.informer(name, m)
	}
	return NewInformer(name, &metav1.PartialObjectMetadata{},
		Lists(m.client.Resource(gvr)), InformerOptions[*metav1.PartialObjectMetadata]{Transform: m.trim, Indexers: m.indexers, newStore: newPackedStore})
}

// For returns the informer of a resource, nil if there is none.
func (m *Metadata) For(gvr schema.GroupVersionResource) *Informer[*metav1.PartialObjectMetadata] {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.informers[gvr]
}

// ForResource returns the informer of a resource in whatever version, nil if there
// is none.
func (m *Metadata) ForResource(gr schema.GroupResource) *Informer[*metav1.PartialObjectMetadata] {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.informers[m.versions[gr]]
}

// Resources are the resources in the order in which they came.
func (m *Metadata) Resources() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for gvr := range m.All() {
		out = append(out, gvr)
	}
	return out
}

// All gives every resource that there is now, with its informer.
func (m *Metadata) All() iter.Seq2[schema.GroupVersionResource, *Informer[*metav1.PartialObjectMetadata]] {
	return func(yield func(schema.GroupVersionResource, *Informer[*metav1.PartialObjectMetadata]) bool) {
		m.mu.RLock()
		entries := m.entries
		m.mu.RUnlock()
		for _, e := range entries {
			if !yield(e.gvr, e.informer) {
				return
			}
		}
	}
}

// Added reports whether a resource came after NewMetadata: one that users define.
func (m *Metadata) Added(gvr schema.GroupVersionResource) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.added[gvr] != nil
}

// Follow calls f for each resource that there is, and for each that is added.
func (m *Metadata) Follow(f func(schema.GroupVersionResource, *Informer[*metav1.PartialObjectMetadata])) {
	m.mu.Lock()
	m.followers = append(m.followers, f)
	entries := m.entries
	m.mu.Unlock()
	for _, e := range entries {
		f(e.gvr, e.informer)
	}
}

// Add follows one more resource from now on.
func (m *Metadata) Add(gvr schema.GroupVersionResource) {
	m.mu.Lock()
	if m.informers[gvr] != nil {
		m.mu.Unlock()
		return
	}
	informer := m.put(gvr)
	m.added[gvr] = &addition{stop: func() {}, stopped: make(chan struct{})}
	close(m.added[gvr].stopped)
	if m.run != nil {
		m.start(gvr, informer)
	}
	followers := slices.Clone(m.followers)
	m.mu.Unlock()
	for _, f := range followers {
		f(gvr, informer)
	}
}

// start runs the informer of a resource that was added; the lock is held.
func (m *Metadata) start(gvr schema.GroupVersionResource, informer *Informer[*metav1.PartialObjectMetadata]) {
	ctx, stop := context.WithCancel(m.run)
	a := &addition{stop: stop, stopped: make(chan struct{})}
	m.added[gvr] = a
	m.running.Go(func() {
		defer close(a.stopped)
		informer.Run(ctx)
	})
}

// Remove ends following a resource that was added: it is served nowhere any more.
// Objects of it that are known are reported as gone.
func (m *Metadata) Remove(gvr schema.GroupVersionResource) {
	m.mu.Lock()
	a, informer := m.added[gvr], m.informers[gvr]
	if a == nil {
		m.mu.Unlock()
		return
	}
	delete(m.added, gvr)
	delete(m.informers, gvr)
	delete(m.versions, gvr.GroupResource())
	m.entries = slices.DeleteFunc(slices.Clone(m.entries), func(e entry) bool { return e.gvr == gvr })
	m.mu.Unlock()
	a.stop()
	<-a.stopped
	informer.clear()
}

// Run runs all informers until ctx is done.
func (m *Metadata) Run(ctx context.Context) {
	m.mu.Lock()
	m.run = ctx
	var all sync.WaitGroup
	for gvr, i := range m.informers {
		if m.added[gvr] != nil {
			m.start(gvr, i)
			continue
		}
		all.Go(func() { i.Run(ctx) })
	}
	m.mu.Unlock()
	all.Wait()
	m.running.Wait()
}

// WaitForSync waits until the informers of all resources that there are have
// synced. One that is removed meanwhile is not waited for.
func (m *Metadata) WaitForSync(ctx context.Context) error {
	for gvr, informer := range m.All() {
		if m.Added(gvr) {
			continue // served by what users define, which must hold up nobody
		}
		if err := informer.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// trim is the transform of the informers.
func (m *Metadata) trim(obj runtime.Object) (*metav1.PartialObjectMetadata, error) {
	o, err := withoutManagedFields[*metav1.PartialObjectMetadata](obj)
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{} // says PartialObjectMetadata, nothing else
	delete(o.Annotations, corev1.LastAppliedConfigAnnotation)
	for _, key := range m.omitted {
		delete(o.Annotations, key)
	}
	o.Labels, o.Annotations = m.maps.Intern(o.Labels), m.maps.Intern(o.Annotations)
	return o, nil
}

func ownerUIDs(o *metav1.PartialObjectMetadata) []string {
	if len(o.OwnerReferences) == 0 {
		return nil
	}
	c := logicalcluster.From(o)
	values := make([]string, 0, len(o.OwnerReferences))
	for i := range o.OwnerReferences {
		values = append(values, UIDKey(c, o.OwnerReferences[i].UID))
	}
	return values
}
