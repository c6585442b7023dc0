package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Custom is the RESTOptionsGetter of custom resources. Logical clusters may
// define a resource of one group and name differently; their objects are in the
// same part of etcd all the same. Each definition reads and writes single
// objects with its own codec, over one etcd client; lists and watches come from
// one watch cache for each group and resource, which holds the objects as they
// are stored, and pass the codec of the definition on their way out.
//
// What a definition costs is a few structs: no goroutine, no copy of the objects. A watch
// cache costs goroutines; it is made when somebody lists or watches its resource first.
type Custom struct {
	delegate generic.RESTOptionsGetter
	client   *kubernetes.Client
	options  Options

	mu     sync.Mutex
	caches map[schema.GroupResource]*sharedCache
	// forgotten have a moment to live.
	forgotten map[*sharedCache]struct{}
}

// NewCustom makes the options of custom resources: delegate gives the codec of
// unstructured objects, client is used for all single objects.
func NewCustom(delegate generic.RESTOptionsGetter, client *kubernetes.Client, o Options) *Custom {
	o.complete()
	return &Custom{delegate: delegate, client: client, options: o, caches: map[schema.GroupResource]*sharedCache{}, forgotten: map[*sharedCache]struct{}{}}
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *Custom) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.delegate.GetRESTOptions(gr, example)
	if err != nil {
		return o, err
	}
	o.CountMetricPollPeriod = 0 // it would cost a goroutine for each definition
	// The caller replaces the codec behind this pointer by that of a definition.
	stored := *o.StorageConfig
	o.Decorator = func(
		config *storagebackend.ConfigForResource,
		prefix string,
		keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc,
		_ storage.IndexerFuncs,
		_ *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		r := &resource{
			gr: config.GroupResource, keys: keys{prefix: prefix}, keyFunc: keyFunc,
			baseAttrs: attrs, targets: g.options.Targets, newFunc: newFunc, newListFunc: newListFunc,
		}
		single, err := newRaw(g.client, nil, config, newFunc, newListFunc, prefix)
		if err != nil {
			return nil, func() {}, err
		}
		return &customStore{
			store: &store{Interface: single, resource: r},
			codec: config.Codec,
			cache: func(ctx context.Context) (*store, error) { return g.cache(ctx, stored, prefix, config.GroupResource) },
		}, func() {}, nil
	}
	return o, nil
}

// lastRequests is how long a watch cache that was forgotten serves the requests
// that have it already.
const lastRequests = 10 * time.Second

// Forget gives up the watch cache of a resource that no logical cluster defines any
// more. It ends a moment later; who asks for the resource meanwhile, since it was
// defined again, gets a new one.
func (g *Custom) Forget(gr schema.GroupResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.caches[gr]
	if c == nil {
		return
	}
	delete(g.caches, gr)
	g.forgotten[c] = struct{}{}
	time.AfterFunc(lastRequests, func() {
		c.end()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.forgotten, c)
	})
}

// Close ends all watch caches.
func (g *Custom) Close() {
	g.mu.Lock()
	all := slices.AppendSeq(slices.Collect(maps.Values(g.caches)), maps.Keys(g.forgotten))
	clear(g.caches)
	g.mu.Unlock()
	for _, c := range all {
		c.end()
	}
}

// sharedCache is the watch cache of one resource. Its lock is held while it is
// made, so that others wait for it and not for each other.
type sharedCache struct {
	mu      sync.Mutex
	store   *store
	destroy func()
}

func (c *sharedCache) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.destroy()
}

// cacheReadyTimeout is how long a request waits for a watch cache that was just
// made; its first list is that of one resource.
const cacheReadyTimeout = 10 * time.Second

func (g *Custom) cache(ctx context.Context, config storagebackend.ConfigForResource, prefix string, gr schema.GroupResource) (*store, error) {
	g.mu.Lock()
	c := g.caches[gr]
	if c == nil {
		c = &sharedCache{destroy: func() {}}
		g.caches[gr] = c
	}
	g.mu.Unlock()

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		config.GroupResource = gr
		s, destroy, err := g.newCache(&config, prefix)
		if err != nil {
			return nil, err
		}
		c.store, c.destroy = s, destroy
	}
	if c.store.ReadinessCheck() != nil {
		// Not the context of the request alone: a watch may wait for hours.
		if err := wait.PollUntilContextTimeout(ctx, 2*time.Millisecond, cacheReadyTimeout, true, func(context.Context) (bool, error) {
			return c.store.ReadinessCheck() == nil, nil
		}); err != nil {
			return nil, fmt.Errorf("waiting for the watch cache of %s: %w", gr, err)
		}
	}
	return c.store, nil
}

func (g *Custom) newCache(config *storagebackend.ConfigForResource, prefix string) (*store, factory.DestroyFunc, error) {
	r := &resource{
		gr: config.GroupResource, keys: keys{prefix: prefix}, keyFunc: storedKey(prefix),
		baseAttrs: storedAttrs, targets: g.options.Targets, sharer: g.options.sharer,
		newFunc:     func() runtime.Object { return &unstructured.Unstructured{} },
		newListFunc: func() runtime.Object { return &unstructured.UnstructuredList{} },
	}
	raw, destroy, err := g.options.Raw(r.weighed(config), r.newFunc, r.newListFunc, prefix)
	if err != nil {
		return nil, nil, fmt.Errorf("making the storage of %s: %w", config.GroupResource, err)
	}
	s, destroy, err := newCachedStore(config, r, nil, raw, destroy, nil)
	if err != nil {
		return nil, nil, err
	}
	s.raw = raw
	return s, destroy, nil
}

// storedKey is the key of an object that is held as it was stored. Whether it
// has a namespace is all that tells its scope.
func storedKey(prefix string) func(runtime.Object) (string, error) {
	return func(obj runtime.Object) (string, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return "", fmt.Errorf("reading the metadata: %w", err)
		}
		if namespace := m.GetNamespace(); namespace != "" {
			return prefix + "/" + namespace + "/" + m.GetName(), nil
		}
		return prefix + "/" + m.GetName(), nil
	}
}

// storedAttrs are the attributes that every definition has.
func storedAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the metadata: %w", err)
	}
	set := fields.Set{nameField: m.GetName()}
	if namespace := m.GetNamespace(); namespace != "" {
		set[namespaceField] = namespace
	}
	return m.GetLabels(), set, nil
}
