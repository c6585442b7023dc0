package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// View is what one logical cluster has in an Informer, as the stock shared
// informer that code for one Kubernetes cluster expects: stock listers and
// admission plugins run on it. It has no goroutine and no copy of anything.
//
// Handlers see what is there and then every change, in the goroutine of the
// informer's reflector and under its lock: they must only take note. What they
// and the stores hand out is shared and must not be changed. Nothing can be
// changed through a View; methods that would do so return errReadOnly.
type View struct {
	source  viewSource
	cluster logicalcluster.Name

	mu       sync.Mutex
	handlers []*viewHandler
}

var _ cache.SharedIndexInformer = &View{}

// errReadOnly is the answer to whoever tries to change a View.
var errReadOnly = errors.New("the view of a logical cluster is read-only")

// viewSource is what a View needs of the generic Informer.
type viewSource interface {
	Name() string
	HasSynced() bool
	done() <-chan struct{}
	get(Request) (any, bool)
	listCluster(logicalcluster.Name) []any
	listNamespace(logicalcluster.Name, string) []any
	watchCluster(logicalcluster.Name, *viewHandler)
	unwatchCluster(logicalcluster.Name, *viewHandler)
}

// viewHandler is one registration; its address is its identity.
type viewHandler struct {
	source viewSource
	cache.ResourceEventHandler
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (h *viewHandler) HasSynced() bool { return h.source.HasSynced() }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (h *viewHandler) HasSyncedChecker() cache.DoneChecker { return viewChecker{h.source} }

type viewChecker struct{ source viewSource }

func (c viewChecker) Name() string          { return c.source.Name() }
func (c viewChecker) Done() <-chan struct{} { return c.source.done() }

// View returns a view of logical cluster c. Whoever adds handlers calls Close in
// the end; a view without handlers is free.
func (i *Informer[T]) View(c logicalcluster.Name) *View {
	return &View{source: i, cluster: c}
}

func (i *Informer[T]) done() <-chan struct{} { return i.synced }

func (i *Informer[T]) get(r Request) (any, bool) { return i.store.get(r.String()) }

func (i *Informer[T]) listCluster(c logicalcluster.Name) []any { return anys(i.ListCluster(c)) }

func (i *Informer[T]) listNamespace(c logicalcluster.Name, namespace string) []any {
	return anys(i.ListNamespace(c, namespace))
}

func anys[T any](list []T) []any {
	out := make([]any, 0, len(list))
	for _, obj := range list {
		out = append(out, obj)
	}
	return out
}

// watchCluster replays what is there and then tells h of every change in c.
func (i *Informer[T]) watchCluster(c logicalcluster.Name, h *viewHandler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.views == nil {
		i.views = map[logicalcluster.Name][]*viewHandler{}
	}
	i.views[c] = append(i.views[c], h)
	for _, obj := range i.ListCluster(c) {
		h.OnAdd(obj, true)
	}
}

func (i *Informer[T]) unwatchCluster(c logicalcluster.Name, h *viewHandler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := slices.DeleteFunc(i.views[c], func(other *viewHandler) bool { return other == h })
	if len(left) == 0 {
		delete(i.views, c)
		return
	}
	i.views[c] = left
}

// notifyViews tells the handlers of the views of the object's logical cluster.
func (i *Informer[T]) notifyViews(old, next T) {
	if len(i.views) == 0 {
		return
	}
	switch {
	case isZero(next):
		for _, h := range i.views[logicalcluster.From(old)] {
			h.OnDelete(old)
		}
	case isZero(old):
		for _, h := range i.views[logicalcluster.From(next)] {
			h.OnAdd(next, false)
		}
	default:
		for _, h := range i.views[logicalcluster.From(next)] {
			h.OnUpdate(old, next)
		}
	}
}

// Close removes all handlers that were added through v.
func (v *View) Close() {
	v.mu.Lock()
	handlers := v.handlers
	v.handlers = nil
	v.mu.Unlock()
	for _, h := range handlers {
		v.source.unwatchCluster(v.cluster, h)
	}
}

// AddEventHandler implements cache.SharedInformer.
func (v *View) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	registered := &viewHandler{source: v.source, ResourceEventHandler: h}
	v.mu.Lock()
	v.handlers = append(v.handlers, registered)
	v.mu.Unlock()
	v.source.watchCluster(v.cluster, registered)
	return registered, nil
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer; there are no
// resyncs.
func (v *View) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (v *View) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// RemoveEventHandler implements cache.SharedInformer.
func (v *View) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	h, ok := handle.(*viewHandler)
	if !ok {
		return fmt.Errorf("%T is no registration of a view", handle)
	}
	v.mu.Lock()
	v.handlers = slices.DeleteFunc(v.handlers, func(other *viewHandler) bool { return other == h })
	v.mu.Unlock()
	v.source.unwatchCluster(v.cluster, h)
	return nil
}

// GetStore implements cache.SharedInformer.
func (v *View) GetStore() cache.Store { return viewIndexer{v.source, v.cluster} }

// GetIndexer implements cache.SharedIndexInformer.
func (v *View) GetIndexer() cache.Indexer { return viewIndexer{v.source, v.cluster} }

// GetController implements cache.SharedInformer: there is none of a View.
func (v *View) GetController() cache.Controller { return nil }

// Run implements cache.SharedInformer; the informer runs without it.
func (v *View) Run(stop <-chan struct{}) { <-stop }

// RunWithContext implements cache.SharedInformer.
func (v *View) RunWithContext(ctx context.Context) { <-ctx.Done() }

// HasSynced implements cache.SharedInformer.
func (v *View) HasSynced() bool { return v.source.HasSynced() }

// HasSyncedChecker implements cache.SharedInformer.
func (v *View) HasSyncedChecker() cache.DoneChecker { return viewChecker{v.source} }

// LastSyncResourceVersion implements cache.SharedInformer; it is not known.
func (v *View) LastSyncResourceVersion() string { return "" }

// SetWatchErrorHandler implements cache.SharedInformer.
func (v *View) SetWatchErrorHandler(cache.WatchErrorHandler) error { return errReadOnly }

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (v *View) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errReadOnly
}

// SetTransform implements cache.SharedInformer.
func (v *View) SetTransform(cache.TransformFunc) error { return errReadOnly }

// IsStopped implements cache.SharedInformer.
func (v *View) IsStopped() bool { return false }

// AddIndexers implements cache.SharedIndexInformer: a view has the namespace
// index and no other.
func (v *View) AddIndexers(indexers cache.Indexers) error {
	return viewIndexer{v.source, v.cluster}.AddIndexers(indexers)
}

// viewIndexer is what stock listers read. Keys are those of one Kubernetes
// cluster: namespace/name, or name.
type viewIndexer struct {
	source  viewSource
	cluster logicalcluster.Name
}

var _ cache.Indexer = viewIndexer{}

func (x viewIndexer) Add(any) error               { return errReadOnly }
func (x viewIndexer) Update(any) error            { return errReadOnly }
func (x viewIndexer) Delete(any) error            { return errReadOnly }
func (x viewIndexer) Replace([]any, string) error { return errReadOnly }
func (x viewIndexer) Resync() error               { return nil }
func (x viewIndexer) Bookmark(string)             {}

func (x viewIndexer) LastStoreSyncResourceVersion() string { return "" }

func (x viewIndexer) List() []any { return x.source.listCluster(x.cluster) }

func (x viewIndexer) ListKeys() []string { return keysOf(x.List()) }

func (x viewIndexer) Get(obj any) (any, bool, error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, err
	}
	return x.GetByKey(key)
}

func (x viewIndexer) GetByKey(key string) (any, bool, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, err
	}
	obj, ok := x.source.get(Request{Cluster: x.cluster, Namespace: namespace, Name: name})
	if !ok {
		return nil, false, nil
	}
	return obj, true, nil
}

func (x viewIndexer) Index(index string, obj any) ([]any, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return x.ByIndex(index, m.GetNamespace())
}

func (x viewIndexer) ByIndex(index, value string) ([]any, error) {
	if index != cache.NamespaceIndex {
		return nil, fmt.Errorf("a view has no index %q", index)
	}
	return x.source.listNamespace(x.cluster, value), nil
}

func (x viewIndexer) IndexKeys(index, value string) ([]string, error) {
	objs, err := x.ByIndex(index, value)
	return keysOf(objs), err
}

func (x viewIndexer) ListIndexFuncValues(string) []string {
	values := map[string]bool{}
	var out []string
	for _, obj := range x.List() {
		m, err := meta.Accessor(obj)
		if err != nil || values[m.GetNamespace()] {
			continue
		}
		values[m.GetNamespace()] = true
		out = append(out, m.GetNamespace())
	}
	return out
}

func (x viewIndexer) GetIndexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

func (x viewIndexer) AddIndexers(indexers cache.Indexers) error {
	for name := range indexers {
		if name != cache.NamespaceIndex {
			return fmt.Errorf("a view cannot have index %q", name)
		}
	}
	return nil
}

func keysOf(objs []any) []string {
	keys := make([]string, 0, len(objs))
	for _, obj := range objs {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}
