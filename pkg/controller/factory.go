package controller

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"
)

// Viewer is an Informer of any type.
type Viewer interface {
	View(logicalcluster.Name) *View
	holds() reflect.Type
}

func (i *Informer[T]) holds() reflect.Type { return reflect.TypeFor[T]() }

// Viewers are informers by the type that they hold.
type Viewers map[reflect.Type]Viewer

// NewViewers collects informers, one for each type.
func NewViewers(informers ...Viewer) Viewers {
	v := make(Viewers, len(informers))
	for _, i := range informers {
		v[i.holds()] = i
	}
	return v
}

// Factory gives stock code the views of one logical cluster as a shared informer
// factory. The generated accessors of a factory only ever call InformerFor, so
// that answering by type is enough; a group that has no method here, and a type
// without an informer, is a mistake of the programmer and panics.
type Factory struct {
	informers.SharedInformerFactory // nil: panics for what is not below

	cluster logicalcluster.Name
	viewers Viewers

	mu    sync.Mutex
	views []*View
}

var _ informers.SharedInformerFactory = &Factory{}

// For returns a factory for logical cluster c.
func (v Viewers) For(c logicalcluster.Name) *Factory { return &Factory{cluster: c, viewers: v} }

// Close removes every handler that was added through the factory.
func (f *Factory) Close() {
	f.mu.Lock()
	views := f.views
	f.views = nil
	f.mu.Unlock()
	for _, v := range views {
		v.Close()
	}
}

// InformerFor implements informers.SharedInformerFactory.
func (f *Factory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	viewer := f.viewers[reflect.TypeOf(obj)]
	if viewer == nil {
		panic(fmt.Sprintf("there is no informer for %T", obj))
	}
	view := viewer.View(f.cluster)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.views = append(f.views, view)
	return view
}

// ForResource implements informers.SharedInformerFactory: who asks for any
// resource gets none and has to watch by itself.
func (f *Factory) ForResource(gvr schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, fmt.Errorf("there is no shared informer for %s", gvr)
}

// InformerName implements informers.SharedInformerFactory.
func (f *Factory) InformerName() *cache.InformerName { return nil }

// Start implements informers.SharedInformerFactory; the informers run already.
func (f *Factory) Start(<-chan struct{}) {}

// StartWithContext implements informers.SharedInformerFactory.
func (f *Factory) StartWithContext(context.Context) {}

// Core implements informers.SharedInformerFactory.
func (f *Factory) Core() core.Interface { return core.New(f, "", nil) }

// Admissionregistration implements informers.SharedInformerFactory.
func (f *Factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}

// Scheduling implements informers.SharedInformerFactory.
func (f *Factory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }

// Storage implements informers.SharedInformerFactory.
func (f *Factory) Storage() storage.Interface { return storage.New(f, "", nil) }

// Node implements informers.SharedInformerFactory.
func (f *Factory) Node() node.Interface { return node.New(f, "", nil) }

// Networking implements informers.SharedInformerFactory.
func (f *Factory) Networking() networking.Interface { return networking.New(f, "", nil) }
