package storage

import (
	"sync"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// newCachedStore makes the store of r behind one watch cache for all logical
// clusters, which begins when v ends, or at once if v is nil.
func newCachedStore(config *storagebackend.ConfigForResource, r *resource, indexers *cache.Indexers, raw storage.Interface, destroyRaw factory.DestroyFunc, v *vacancy) (*store, factory.DestroyFunc, error) {
	raw = noWatchList{raw}
	seen := &recentObjects{}
	cached, err := newLazy(r, raw, v, func() (*watchCache, error) { return newWatchCache(config, r, indexers, raw, seen) })
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
// trigger and index.
func newWatchCache(config *storagebackend.ConfigForResource, r *resource, indexers *cache.Indexers, raw storage.Interface, seen *recentObjects) (*watchCache, error) {
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             raw,
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
	cached := cacher.NewCacheDelegator(c, raw)
	return &watchCache{CacheDelegator: cached, stop: func() {
		cached.Stop()
		c.Stop()
	}}, nil
}

// noWatchList is the storage below a watch cache. The reflector of the watch
// cache would stream its initial list, if it may, into a temporary store with
// keys of namespace and name, and so keep one of all objects that have equal
// names in different logical clusters. It asks the storage whether it may.
type noWatchList struct{ storage.Interface }

// IsWatchListSemanticsUnSupported makes the reflector list, then watch.
func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }
