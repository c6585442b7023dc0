package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/names"
)

// byService finds EndpointSlices by namespace and name of their Service.
const byService = "service"

// watcher keeps zones in step with the physical cluster.
type watcher struct {
	zones      *zones
	own        string // namespace
	factories  []informers.SharedInformerFactory
	namespaces cache.SharedIndexInformer
	services   cache.SharedIndexInformer
	slices     cache.SharedIndexInformer
	ports      cache.SharedIndexInformer
}

// newWatcher makes one; namespace is its own, where the Services are that say which port is whose,
// and those that are imports. notify is called when a port changes.
func newWatcher(kube kubernetes.Interface, namespace string, z *zones, notify func()) (*watcher, error) {
	selected := func(selector string) informers.SharedInformerOption {
		return informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector })
	}
	ours := informers.NewSharedInformerFactoryWithOptions(kube, 0, selected(placementv1alpha1.ManagedByLabel), informers.WithTransform(slim))
	own := informers.NewSharedInformerFactoryWithOptions(kube, 0, selected(names.Label), informers.WithNamespace(namespace), informers.WithTransform(slim))
	w := &watcher{
		zones: z, own: namespace, factories: []informers.SharedInformerFactory{ours, own},
		namespaces: ours.Core().V1().Namespaces().Informer(), services: ours.Core().V1().Services().Informer(),
		slices: ours.Discovery().V1().EndpointSlices().Informer(), ports: own.Core().V1().Services().Informer(),
	}
	handle := func(changed func(cache.ObjectName)) cache.ResourceEventHandlerFuncs {
		keyed := func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				changed(name)
			}
		}
		return cache.ResourceEventHandlerFuncs{AddFunc: keyed, UpdateFunc: func(_, obj any) { keyed(obj) }, DeleteFunc: keyed}
	}
	sliceChanged := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*discoveryv1.EndpointSlice); ok {
			w.service(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
		}
	}
	_, errNamespaces := w.namespaces.AddEventHandler(handle(func(n cache.ObjectName) { w.namespace(n.Name) }))
	_, errServices := w.services.AddEventHandler(handle(func(n cache.ObjectName) { w.service(n.Namespace, n.Name) }))
	_, errSlices := w.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: sliceChanged, DeleteFunc: sliceChanged,
		UpdateFunc: func(old, obj any) { sliceChanged(old); sliceChanged(obj) },
	})
	_, errPorts := w.ports.AddEventHandler(handle(func(cache.ObjectName) { notify() }))
	errIndexes := w.slices.AddIndexers(cache.Indexers{byService: func(obj any) ([]string, error) {
		s, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			return nil, fmt.Errorf("unexpected %T", obj)
		}
		return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}, nil
	}})
	return w, errors.Join(errNamespaces, errServices, errSlices, errPorts, errIndexes)
}

// slim keeps of an object what names depend on.
func slim(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetOwnerReferences(nil)
		kept := map[string]string{}
		for _, key := range names.Annotations() {
			if value, ok := o.GetAnnotations()[key]; ok {
				kept[key] = value
			}
		}
		o.SetAnnotations(kept)
	}
	return obj, nil
}

// run watches until ctx is done. synced is called once everything that is there is known.
func (w *watcher) run(ctx context.Context, synced func()) {
	for _, f := range w.factories {
		f.StartWithContext(ctx)
	}
	if cache.WaitForCacheSync(ctx.Done(), w.namespaces.HasSynced, w.services.HasSynced, w.slices.HasSynced, w.ports.HasSynced) {
		w.everything()
		synced()
	}
	<-ctx.Done()
	for _, f := range w.factories {
		f.Shutdown()
	}
}

// everything sets all zones from the caches: handlers may not have been called for all of
// it yet.
func (w *watcher) everything() {
	for _, obj := range w.namespaces.GetStore().List() {
		if n, ok := obj.(*corev1.Namespace); ok {
			w.namespace(n.Name)
		}
	}
	_ = cache.ListAllByNamespace(w.services.GetIndexer(), w.own, labels.Everything(), func(obj any) {
		if s, ok := obj.(*corev1.Service); ok {
			w.service(s.Namespace, s.Name)
		}
	})
}

// namespace sets what a physical namespace has. Its own is no tenant's, whatever it says.
func (w *watcher) namespace(physical string) {
	w.zones.mu.Lock()
	defer w.zones.mu.Unlock()
	var now *placed
	if obj, ok, _ := w.namespaces.GetStore().GetByKey(physical); ok && physical != w.own {
		if n, ok := obj.(*corev1.Namespace); ok {
			if t, name, ours := names.Place(n); ours {
				now = &placed{tenant: t, namespace: name}
			}
		}
	}
	before, changed := w.zones.place(physical, now)
	if !changed {
		return
	}
	if now != nil {
		w.fill(physical, *now)
	}
	if before == nil {
		return
	}
	// Another one may have the same place by now, as when a namespace is made again while
	// its predecessor ends.
	for other, where := range w.zones.placed {
		if where == *before && other != physical {
			w.zones.zone(where.tenant).SetNamespace(where.namespace)
			w.fill(other, where)
		}
	}
}

// fill sets all Services of a physical namespace.
func (w *watcher) fill(physical string, where placed) {
	_ = cache.ListAllByNamespace(w.services.GetIndexer(), physical, labels.Everything(), func(obj any) {
		if s, ok := obj.(*corev1.Service); ok {
			w.set(where, s)
		}
	})
}

// service sets the names of one Service, as the caches have it now. The lock is held while
// they are read: who comes last has read the last.
func (w *watcher) service(physical, name string) {
	w.zones.mu.Lock()
	defer w.zones.mu.Unlock()
	s := w.cached(physical, name)
	if physical == w.own {
		w.setImport(name, s)
		return
	}
	where, ok := w.zones.placed[physical]
	switch {
	case !ok: // namespace sets it with all others
	case s != nil:
		w.set(where, s)
	default:
		w.zones.zone(where.tenant).DeleteService(where.namespace, name)
	}
}

// setImport sets what a Service of its own namespace leads to, which is nothing if it is no
// import, or nil. Only there labels say so: elsewhere tenants may have written them.
func (w *watcher) setImport(name string, s *corev1.Service) {
	w.zones.dropImport(name)
	if s == nil {
		return
	}
	if i, ok := names.ImportOf(s); ok {
		w.zones.setImport(name, i, i.ServiceFrom(s, w.endpoints(s)))
	}
}

func (w *watcher) set(where placed, s *corev1.Service) {
	w.zones.zone(where.tenant).SetService(names.ServiceFrom(where.namespace, s, w.endpoints(s)))
}

// cached is a Service of the physical cluster, nil if there is none.
func (w *watcher) cached(namespace, name string) *corev1.Service {
	obj, _, _ := w.services.GetStore().GetByKey(namespace + "/" + name)
	s, _ := obj.(*corev1.Service)
	return s
}

// endpoints are the EndpointSlices of a Service.
func (w *watcher) endpoints(s *corev1.Service) []*discoveryv1.EndpointSlice {
	found, _ := w.slices.GetIndexer().ByIndex(byService, s.Namespace+"/"+s.Name)
	var out []*discoveryv1.EndpointSlice
	for _, obj := range found {
		if e, ok := obj.(*discoveryv1.EndpointSlice); ok {
			out = append(out, e)
		}
	}
	return out
}

// allocated are the ports of logical clusters, and where each finds the control plane.
func (w *watcher) allocated() (ports map[int]names.Tenant, servers map[names.Tenant]names.Server, wrong map[string]error) {
	ports, servers, wrong = map[int]names.Tenant{}, map[names.Tenant]names.Server{}, map[string]error{}
	lowest := map[names.Tenant]int{}
	for _, obj := range w.ports.GetStore().List() {
		s, ok := obj.(*corev1.Service)
		if !ok {
			continue
		}
		port, tenant, server, err := names.PortOf(s)
		if err != nil {
			wrong[s.Name] = err
			continue
		}
		ports[port] = tenant
		if before, ok := lowest[tenant]; !ok || port < before {
			lowest[tenant], servers[tenant] = port, server
		}
	}
	return ports, servers, wrong
}

// listTimeout is how long the first lists may take before it is said that they do.
const listTimeout = 30 * time.Second
