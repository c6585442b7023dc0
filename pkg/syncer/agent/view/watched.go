package view

import (
	"context"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// watched is which kinds are watched at a time: a value that does not change. Readers
// take it once, and see no kind come or go meanwhile.
type watched struct {
	kinds   workload.Catalog
	entries map[schema.GroupVersionResource]*entry
	byKind  map[schema.GroupVersionKind]*entry
}

// entry is a kind that is watched, with the informers of both sides. It does not
// change, either.
type entry struct {
	kind  workload.Kind
	above *watch
	// below is nil if the physical cluster does not serve the kind.
	below *watch
}

// watch is an informer, and what ends it.
type watch struct {
	*objects
	// ctx is that of its run, which stop ends; nil before it.
	ctx  context.Context
	stop context.CancelFunc
	// handled says that changes are handled; its View's lock is held.
	handled bool
}

// listed waits for the first list; false says that the watch ended before.
func (w *watch) listed() bool { return w.WaitForSync(w.ctx) == nil }

// end ends the watch.
func (w *watch) end() {
	if w != nil && w.stop != nil {
		w.stop()
	}
}

// with is w with another entry, in the place of what there was of the kind.
func (w *watched) with(kinds workload.Catalog, gvr schema.GroupVersionResource, e *entry) *watched {
	next := &watched{kinds: kinds, entries: maps.Clone(w.entries), byKind: maps.Clone(w.byKind)}
	if before := w.entries[gvr]; before != nil {
		delete(next.entries, gvr)
		delete(next.byKind, before.kind.GroupVersionKind)
	}
	if e != nil {
		next.entries[gvr], next.byKind[e.kind.GroupVersionKind] = e, e
	}
	return next
}

// inOrder are the entries, what others need first.
func (w *watched) inOrder() []*entry {
	var all []*entry
	for _, kind := range w.kinds.All() {
		if e := w.entries[kind.GroupVersionResource()]; e != nil {
			all = append(all, e)
		}
	}
	return all
}

// above is the informer of a resource in the control plane; nil if there is none.
func (w *watched) above(gvr schema.GroupVersionResource) *objects {
	if e := w.entries[gvr]; e != nil {
		return e.above.objects
	}
	return nil
}

// below is that on the physical cluster.
func (w *watched) below(gvr schema.GroupVersionResource) *objects {
	if e := w.entries[gvr]; e != nil && e.below != nil {
		return e.below.objects
	}
	return nil
}

// placed is the kind of a resource of which objects have copies.
func (w *watched) placed(gvr schema.GroupVersionResource) (workload.Kind, bool) {
	if e := w.entries[gvr]; e != nil && e.kind.Copied() {
		return e.kind, true
	}
	return workload.Kind{}, false
}

// observed is the kind of a resource of which objects are mirrored.
func (w *watched) observed(gvr schema.GroupVersionResource) (workload.Kind, bool) {
	if e := w.entries[gvr]; e != nil && e.kind.Observed && e.below != nil {
		return e.kind, true
	}
	return workload.Kind{}, false
}

// same says that a kind is declared as before.
func same(a, b workload.Kind) bool { return reflect.DeepEqual(a, b) }
