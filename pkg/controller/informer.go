package controller

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

// Object is what informers hold.
type Object interface {
	metav1.Object
	runtime.Object
}

// InformerOptions are the choices that an informer offers; the zero value is
// good.
type InformerOptions[T Object] struct {
	// Transform turns a listed or watched object into what is kept. The result
	// must have the name, namespace, UID and resource version of the object and
	// its annotation of the logical cluster. An object for which it returns the
	// zero T is not kept. Default: the object itself without managedFields, its
	// labels and annotations shared with others that are equal.
	Transform func(runtime.Object) (T, error)
	// Indexers by name: each gives the values under which ByIndex finds an
	// object.
	Indexers map[string]func(T) []string
	// Maps has the labels and annotations, if there is no Transform. Default: one of
	// its own.
	Maps *sharing.Maps
	// Unscoped says that the source is one plain Kubernetes cluster: no scope is
	// put into the context. Otherwise the informer is about all logical clusters.
	Unscoped bool
	// Tweak changes the options of each list and watch, for selectors.
	Tweak func(*metav1.ListOptions)
	// Server watches over the informer: that its server did not go back in time.
	// Default: nothing does; who shares a process with the server needs none.
	Server *Server
	// Metadata lists what List lists, without contents: what the informer is compared
	// with. It must be nil if the Transform drops objects.
	Metadata func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

	// Allowance, if not nil, bounds what is held, with that of other informers: for a server
	// that is not trusted.
	Allowance *Allowance

	// Thin, if not nil, makes an object of metadata as most objects are: of one that equals
	// what it makes, the informer keeps the metadata alone, and what it returns is made for
	// the call. It must come with Meta, which gives the metadata of an object.
	Thin func(metav1.ObjectMeta) T
	Meta func(T) *metav1.ObjectMeta

	// newStore makes the store. Default: newEncodedStore of unstructured objects, newStore of
	// others.
	newStore func(map[string]func(T) []string) store[T]
}

// Informer keeps a copy of all objects of one resource. What it returns is
// shared: callers must not change it.
type Informer[T Object] struct {
	name      string
	reflector *cache.Reflector
	source    *source
	store     store[T]
	server    *Server
	allowance *Allowance
	metadata  func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	seen      seen
	// position is the version up to which the store is complete; nil before the first
	// list, and from when the server went back to the next one.
	position atomic.Pointer[string]
	// lists says that a list is being taken over.
	lists     atomic.Bool
	transform func(runtime.Object) (T, error)
	// follow fills the informer from another one, in place of the reflector.
	follow func(context.Context)
	// maps has the labels and annotations, unless there is a transform.
	maps *sharing.Maps

	// mu orders changes of the store, calls of handlers and their registration.
	mu       sync.Mutex
	handlers []func(old, new T)
	// views are the handlers of views, by logical cluster.
	views map[logicalcluster.Name][]*viewHandler

	syncOnce sync.Once
	synced   chan struct{}

	runMu sync.Mutex
	// running is the context of the list or watch of now, and again ends it, for a new list.
	running context.Context
	again   context.CancelFunc
}

// NewInformer makes an informer over lw, whose objects have the type of
// example; name appears in logs.
func NewInformer[T Object](name string, example runtime.Object, lw ListWatch, o InformerOptions[T]) *Informer[T] {
	i := &Informer[T]{name: name, transform: o.Transform, server: o.Server, allowance: o.Allowance, metadata: o.Metadata, synced: make(chan struct{}), again: func() {}}
	if i.maps = o.Maps; i.maps == nil {
		i.maps = &sharing.Maps{}
	}
	if i.transform == nil {
		i.transform = i.slim
	}
	if o.newStore == nil {
		switch encoded, ok := any(newEncodedStore).(func(map[string]func(T) []string) store[T]); {
		case ok:
			o.newStore = encoded
		case o.Thin != nil:
			o.newStore = newThinStore(o.Meta, o.Thin)
		default:
			o.newStore = newStore[T]
		}
	}
	i.store = o.newStore(o.Indexers)
	i.source = &source{lw: lw, unscoped: o.Unscoped, tweak: o.Tweak, seen: &i.seen}
	if i.server != nil {
		i.source.reconnected = i.reconnected
	}
	i.reflector = cache.NewReflectorWithOptions(i.source, example, sink[T]{i},
		cache.ReflectorOptions{Name: name, Backoff: backoff()})
	return i
}

// backoff between failed lists and watches: the server is mostly in the same
// process, so come back soon after it does.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 10 * time.Second}
}

// Run fills the informer and keeps it current until ctx is done. The context
// may carry the view of a physical cluster (scope.WithTarget).
func (i *Informer[T]) Run(ctx context.Context) {
	if i.follow != nil {
		i.follow(ctx)
		return
	}
	defer i.server.join(i)()
	for ctx.Err() == nil {
		run, again := context.WithCancel(ctx)
		i.runMu.Lock()
		i.running, i.again = run, again
		i.runMu.Unlock()
		i.reflector.RunWithContext(run)
		again()
	}
}

// context is that of the list or watch of now.
func (i *Informer[T]) context() context.Context {
	i.runMu.Lock()
	defer i.runMu.Unlock()
	if i.running == nil {
		return context.Background()
	}
	return i.running
}

// clear reports all objects as gone; Run has ended.
func (i *Informer[T]) clear() {
	_ = sink[T]{i}.Replace(nil, "") // it fails for objects, and there are none
}

// Name is the name given to NewInformer.
func (i *Informer[T]) Name() string { return i.name }

// HasSynced says whether the first complete list has arrived.
func (i *Informer[T]) HasSynced() bool {
	select {
	case <-i.synced:
		return true
	default:
		return false
	}
}

// WaitForSync blocks until HasSynced; the error says that ctx ended first.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	select {
	case <-i.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the first list of %s: %w", i.name, context.Cause(ctx))
	}
}

// Handle calls f for each change: old is the zero T for a new object, new is
// the zero T for one that is gone. What is there already is replayed as new.
// An object that was deleted and made again under its name is reported as gone
// and then as new. f must only enqueue.
func (i *Informer[T]) Handle(f func(old, new T)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, f)
	var zero T
	for _, key := range i.store.keys() { // in order: a run that is repeated is the same
		if obj, found := i.store.get(key); found {
			f(zero, obj)
		}
	}
}

// Reached says that the informer has all that happened up to a version of its server.
func (i *Informer[T]) Reached(version string) bool {
	position := i.position.Load()
	if position == nil {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(*position, version)
	return err == nil && c >= 0
}

// Watches says, to a handler, that what it is told comes from a watch: after all that happened
// before it, at the resource version that the object has. A list has no such order.
func (i *Informer[T]) Watches() bool { return i.HasSynced() && !i.lists.Load() }

// Get finds one object.
func (i *Informer[T]) Get(r Request) (T, bool) { return i.store.get(r.String()) }

// All are all objects as they are now, in the order of their keys: each is made when the walk
// reaches it, which so does not take the memory of all.
func (i *Informer[T]) All() iter.Seq[T] { return i.store.below("") }

// List returns all objects, in the order of their keys.
func (i *Informer[T]) List() []T { return slices.AppendSeq(make([]T, 0, i.Len()), i.All()) }

// Len is the number of objects.
func (i *Informer[T]) Len() int { return i.store.count("", math.MaxInt) }

// ListCluster returns the objects of a logical cluster, in the order of their keys.
func (i *Informer[T]) ListCluster(c logicalcluster.Name) []T {
	return slices.Collect(i.store.below(clusterPrefix(c)))
}

// ListNamespace returns the objects of a namespace, in the order of their keys.
func (i *Informer[T]) ListNamespace(c logicalcluster.Name, namespace string) []T {
	return slices.Collect(i.store.below(namespacePrefix(c, namespace)))
}

// CountCluster is the number of objects in a logical cluster. It walks them: see
// HasCluster.
func (i *Informer[T]) CountCluster(c logicalcluster.Name) int {
	return i.store.count(clusterPrefix(c), math.MaxInt)
}

// HasCluster says whether a logical cluster has any object.
func (i *Informer[T]) HasCluster(c logicalcluster.Name) bool {
	return i.store.count(clusterPrefix(c), 1) > 0
}

// CountNamespace is the number of objects in a namespace. It walks them: see
// HasNamespace.
func (i *Informer[T]) CountNamespace(c logicalcluster.Name, namespace string) int {
	return i.store.count(namespacePrefix(c, namespace), math.MaxInt)
}

// HasNamespace says whether a namespace has any object.
func (i *Informer[T]) HasNamespace(c logicalcluster.Name, namespace string) bool {
	return i.store.count(namespacePrefix(c, namespace), 1) > 0
}

// ByIndex returns the objects for which the indexer of that name gave value, in
// the order of their keys. It panics for an index that the informer was not made with.
func (i *Informer[T]) ByIndex(index, value string) []T {
	return slices.Collect(i.store.byIndex(index, value))
}

// AllByIndex is ByIndex for many: each object is made when the walk reaches it, as by All.
func (i *Informer[T]) AllByIndex(index, value string) iter.Seq[T] {
	return i.store.byIndex(index, value)
}

// CountByIndex is the number of objects that ByIndex finds.
func (i *Informer[T]) CountByIndex(index, value string) int { return i.store.countIndex(index, value) }

// clusterPrefix is what the keys of the objects of a logical cluster begin with, and
// namespacePrefix that of a namespace: see Request.String.
func clusterPrefix(c logicalcluster.Name) string { return c.String() + "|" }

func namespacePrefix(c logicalcluster.Name, namespace string) string {
	return c.String() + "|" + namespace + "/"
}
