package references

import (
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// declaredHolders are the informers of declared kinds that refer to others. What one of them
// lacks as it comes is no reason to remove a copy: see live.
type declaredHolders struct {
	mu sync.Mutex
	of map[schema.GroupVersionResource]*controller.Informer[*holder]
}

// all are the informers of now.
func (d *declaredHolders) all() []*controller.Informer[*holder] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.of))
}

func (d *declaredHolders) put(gvr schema.GroupVersionResource, h *controller.Informer[*holder]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[schema.GroupVersionResource]*controller.Informer[*holder]{}
	}
	if d.of[gvr] = h; h == nil {
		delete(d.of, gvr)
	}
}

// followDeclared runs an informer for each declared kind that refers to others, as kinds come
// and go, until ctx is done. One is run only once some logical cluster defines the kind.
func (c *Controller) followDeclared(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defined := make(chan struct{}, 1)
	c.Objects.Follow(func(schema.GroupVersionResource, *controller.Informer[*metav1.PartialObjectMetadata]) {
		select {
		case defined <- struct{}{}:
		default:
		}
	})
	stops := map[schema.GroupVersionResource]context.CancelFunc{}
	shown := workload.Catalog{}
	for ctx.Err() == nil {
		kinds := c.Kinds.Current()
		_, gone := kinds.Since(shown)
		for _, kind := range gone {
			if stop := stops[kind.GroupVersionResource()]; stop != nil {
				stop()
				delete(stops, kind.GroupVersionResource())
				c.later.put(kind.GroupVersionResource(), nil)
			}
		}
		for _, kind := range kinds.Declared() {
			gvr := kind.GroupVersionResource()
			if !kind.Refers() || stops[gvr] != nil || c.Objects.ForResource(kind.GroupResource()) == nil {
				continue
			}
			h := newHolder(kind, c.Dynamic)
			h.Handle(c.holderChanged)
			run, stop := context.WithCancel(ctx)
			stops[gvr] = stop
			running.Go(func() { h.Run(run) })
			c.later.put(gvr, h)
		}
		shown = kinds
		select {
		case <-ctx.Done():
		case <-c.Kinds.Changed(kinds):
		case <-defined:
		}
	}
	for _, stop := range stops {
		stop()
	}
}
