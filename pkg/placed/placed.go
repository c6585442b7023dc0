// Package placed follows the metadata of the objects that may have copies, as the kinds
// of the catalog, and the resources that logical clusters define, come and go.
//
// Invariant: of a kind that is in the catalog, no object is missed, whichever was there
// first: the kind, the definition of its resource, or the object. A kind that comes has its
// objects handled as if they had just been made.
//
// It does no I/O of its own; the informers that it reads are shared. Read next: Follow.
package placed

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Informer holds the metadata of the objects of a resource.
type Informer = controller.Informer[*metav1.PartialObjectMetadata]

// Of returns the informer of a kind, nil if there is none. What logical clusters define is
// followed in whatever version.
func Of(objects *controller.Metadata, kind workload.Kind) *Informer {
	if kind.Declared {
		return objects.ForResource(kind.GroupResource())
	}
	return objects.For(kind.GroupVersionResource())
}

// Handler is called with changes of objects of a kind, as the handlers of an informer are.
type Handler func(kind workload.Kind, old, new *metav1.PartialObjectMetadata)

// Follow has a handler called, from now on, for the objects of all kinds that may have
// copies. What it returns has it called for those of kinds that come later, until its
// context is done.
func Follow(kinds workload.Source, objects *controller.Metadata, handle Handler) (later func(context.Context)) {
	before := kinds.Current()
	objects.Follow(func(gvr schema.GroupVersionResource, informer *Informer) {
		gr := gvr.GroupResource()
		kind, ok := before.Undeclared().ByResource(gr)
		switch {
		case ok && kind.GroupVersionResource() == gvr:
			informer.Handle(func(old, new *metav1.PartialObjectMetadata) { handle(kind, old, new) })
		case objects.Added(gvr):
			informer.Handle(func(old, new *metav1.PartialObjectMetadata) {
				if kind, ok := kinds.Current().ByResource(gr); ok && kind.Declared {
					handle(kind, old, new)
				}
			})
		}
	})
	return func(ctx context.Context) {
		for before := before; ; {
			select {
			case <-ctx.Done():
				return
			case <-kinds.Changed(before):
			}
			now := kinds.Current()
			came, _ := now.Since(before)
			before = now
			for _, kind := range came {
				if informer := Of(objects, kind); informer != nil {
					for _, obj := range informer.List() {
						handle(kind, nil, obj)
					}
				}
			}
		}
	}
}
