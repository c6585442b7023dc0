package storage

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// newCachedStore makes the store of r behind one watch cache for all logical
// clusters, which begins when v ends, or at once if v is nil.
func newCachedStore(config *storagebackend.ConfigForResource, r *resource, indexers *cache.Indexers, raw storage.Interface, destroyRaw factory.DestroyFunc, v *vacancy) (*store, factory.DestroyFunc, error) {
	seen := &recentObjects{}
	cached, err := newLazy(r, raw, v, func(revision uint64) (*watchCache, error) {
		return newWatchCache(config, r, indexers, raw, seen, revision)
	})
	if err != nil {
		destroyRaw()
		return nil, func() {}, err
	}
	h := newHub(r, cached, seen)
	destroy := sync.OnceFunc(func() {
		h.close()
		cached.close()
		destroyRaw()
	})
	return &store{Interface: cached, resource: r, hub: h}, destroy, nil
}

// newWatchCache is upstream's StorageWithCacher with our keys, attributes,
// trigger and index. It begins with the state of a revision, if that is not zero and
// etcd still has it, else with that of now.
func newWatchCache(config *storagebackend.ConfigForResource, r *resource, indexers *cache.Indexers, raw storage.Interface, seen *recentObjects, revision uint64) (*watchCache, error) {
	below := &beginning{Interface: raw, revision: revision, resource: r, window: config.EventsHistoryWindow}
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             below,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       config.GroupResource,
		EventsHistoryWindow: config.EventsHistoryWindow,
		ResourcePrefix:      r.keys.prefix,
		KeyFunc:             r.key,
		NewFunc:             r.newFunc,
		NewListFunc:         r.newListFunc,
		GetAttrsFunc:        seen.attrs(r.sharer.attrs(r.kept)),
		IndexerFuncs:        r.trigger(),
		Indexers:            r.indexers(indexers),
		Codec:               config.Codec,
	})
	if err != nil {
		return nil, err
	}
	below.above.Store(c)
	cached := cacher.NewCacheDelegator(c, raw)
	return &watchCache{CacheDelegator: cached, kept: below.kept, stop: func() {
		cached.Stop()
		c.Stop()
	}}, nil
}

// beginning is the storage below a watch cache. The first list is answered with the
// state of a revision: the watch that follows has all events since, and has the watch cache forget old ones.
type beginning struct {
	storage.Interface
	revision uint64
	begun    atomic.Bool
	resource *resource
	window   time.Duration // for how long events are kept at least
	above    atomic.Pointer[cacher.Cacher]
}

// IsWatchListSemanticsUnSupported makes the reflector of the watch cache list, then
// watch. It would stream its initial list, if it may, into a temporary store with
// keys of namespace and name, and so keep one of all objects that have equal
// names in different logical clusters.
func (b *beginning) IsWatchListSemanticsUnSupported() bool { return true }

// GetList implements storage.Interface.
func (b *beginning) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	if b.revision != 0 && b.begun.CompareAndSwap(false, true) {
		past := o
		past.ResourceVersion, past.ResourceVersionMatch = fmt.Sprint(b.revision), metav1.ResourceVersionMatchExact
		if err := b.Interface.GetList(ctx, key, past, list); err == nil {
			return nil
		}
		// Compacted, most likely. Who waits from before is told that it is too late.
	}
	return b.Interface.GetList(ctx, key, o, list)
}

// Watch implements storage.Interface.
func (b *beginning) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := b.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err //nolint:wrapcheck // the reflector of the watch cache looks at it
	}
	ask := func(ctx context.Context) error {
		return b.RequestWatchProgress(withoutMetadata(ctx)) //nolint:wrapcheck // nobody looks at it
	}
	return newForgetting(w, b.window, &b.resource.large, ask, b.kept, b.resource.newFunc), nil
}

// kept is how many events the watch cache keeps, for who hands events to it: nobody else changes that. Upstream
// says so in a metric only, which all servers of a process share.
func (b *beginning) kept() int {
	c := b.above.Load()
	if c == nil {
		return pastKept // it has just been made
	}
	return capacityOf(c)
}

// capacityOf reads what upstream has no API for, and is pastKept where upstream has it elsewhere.
func capacityOf(c *cacher.Cacher) int {
	v := reflect.ValueOf(c).Elem()
	for _, field := range []string{"watchCache", "history", "capacity"} {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			v = v.FieldByName(field)
		}
	}
	if !v.IsValid() || !v.CanInt() {
		return pastKept
	}
	return int(v.Int())
}
