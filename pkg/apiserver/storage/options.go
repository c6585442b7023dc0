package storage

import (
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

// Options say what is not the same for every user of the package.
type Options struct {
	// Targets returns the names of the physical clusters that obj is visible to.
	// It must be a pure function of obj and must not change it. Default: TargetsOf.
	Targets func(obj runtime.Object) []string
	// Raw makes the storage below everything here. Default: upstream's, which
	// opens one etcd client per resource.
	Raw RawStorage
	// StockLists leaves consistent lists to upstream's watch cache, which waits
	// for a progress notification of etcd: see listFresh.
	StockLists bool
	// Maps has the labels and annotations of what is in watch caches. Default: one
	// of its own.
	Maps *sharing.Maps
	// Lazy is the etcd that is asked whether a resource has objects: its watch cache
	// begins with the first. Default: watch caches begin at once.
	Lazy *Clients
	// Counts counts the objects. Default: each resource has a goroutine that does.
	Counts *Counts

	sharer *sharer
}

func (o *Options) complete() {
	if o.Targets == nil {
		o.Targets = TargetsOf
	}
	if o.Raw == nil {
		o.Raw = generic.NewRawStorage
	}
	if o.Maps == nil {
		o.Maps = &sharing.Maps{}
	}
	o.sharer = newSharer(o.Maps)
}

// RawStorage makes the storage of one resource: generic.NewRawStorage, or what
// replaces it in a test.
type RawStorage func(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, prefix string) (storage.Interface, factory.DestroyFunc, error)

// NewRESTOptionsGetter wraps delegate, whose own decorator is not used.
func NewRESTOptionsGetter(delegate generic.RESTOptionsGetter, o Options) generic.RESTOptionsGetter {
	o.complete()
	return &restOptionsGetter{delegate: delegate, options: o}
}

type restOptionsGetter struct {
	delegate generic.RESTOptionsGetter
	options  Options
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *restOptionsGetter) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.delegate.GetRESTOptions(gr, example)
	if err != nil {
		return o, err
	}
	o.Decorator = g.decorate
	if g.options.Counts != nil {
		o.CountMetricPollPeriod = 0
	}
	return o, nil
}

// decorate is a generic.StorageDecorator.
func (g *restOptionsGetter) decorate(
	config *storagebackend.ConfigForResource,
	prefix string,
	keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	attrs storage.AttrFunc,
	_ storage.IndexerFuncs, // there is one trigger per watch cache; ours finds fewer watchers
	indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	r := &resource{
		gr:          config.GroupResource,
		keys:        keys{prefix: prefix},
		keyFunc:     keyFunc,
		baseAttrs:   attrs,
		targets:     g.options.Targets,
		sharer:      g.options.sharer,
		newFunc:     newFunc,
		newListFunc: newListFunc,
	}
	raw, destroy, err := g.options.Raw(r.weighed(config), newFunc, newListFunc, prefix)
	if err != nil {
		return nil, destroy, err
	}
	if g.options.Counts != nil {
		remove, destroyRaw := g.options.Counts.add(config.GroupResource, raw), destroy
		destroy = func() {
			remove()
			destroyRaw()
		}
	}
	if uncached(config.GroupResource) {
		return &store{Interface: raw, resource: r}, destroy, nil
	}
	if err := runtime.CheckCodec(config.Codec, newFunc()); err != nil {
		destroy()
		return nil, func() {}, fmt.Errorf("the codec of %s does not match its type: %w", r.gr, err)
	}
	var v *vacancy
	if g.options.Lazy != nil {
		v = newVacancy(g.options.Lazy.vacancies, path.Join("/", config.Prefix, prefix)+"/")
	}
	s, destroy, err := newCachedStore(config, r, indexers, raw, destroy, v)
	if err == nil && !g.options.StockLists {
		s.raw = raw
	}
	return s, destroy, err
}

// uncached says which resources have no watch cache: like upstream, events.
func uncached(gr schema.GroupResource) bool {
	return gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io")
}
