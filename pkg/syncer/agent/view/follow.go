package view

import (
	"context"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Follow has the view show other kinds, or kinds that are served now, or not any more.
// Informers that are wanted as they are go on, without a list; the others end, and new
// ones start. It does not wait for their first lists: a kind is shown once both sides
// have theirs, as nobody knows before what is absent. Its informers run until ctx
// is done, in goroutines of running; Start comes first.
//
//	the kind is        and the physical cluster    then
//	new                serves it, or not           list above, and below if served
//	as before          serves it as before         nothing
//	as before          serves it now               list below; what is above is looked at again
//	as before          does not serve it any more  the watch below ends; the same
//	declared anew      any                         as gone, and new
//	gone               any                         both watches end; nothing is removed for it
func (v *View) Follow(ctx context.Context, running *sync.WaitGroup, kinds workload.Catalog, serves func(workload.Kind) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	wanted := map[schema.GroupVersionResource]workload.Kind{}
	for _, kind := range kinds.All() {
		if kind.Copied() || serves(kind) { // what has copies is watched above in any case
			wanted[kind.GroupVersionResource()] = kind
		}
	}
	before := v.kinds
	v.kinds = kinds
	v.show(v.now.Load().with(kinds, schema.GroupVersionResource{}, nil))
	for _, kind := range before.All() {
		gvr := kind.GroupVersionResource()
		e := v.begun[gvr]
		if now, ok := wanted[gvr]; e != nil && (!ok || !same(now, e.kind)) {
			v.withdraw(gvr, e)
		}
	}
	for _, kind := range kinds.All() {
		if _, ok := wanted[kind.GroupVersionResource()]; ok {
			v.begin(ctx, running, kind, serves(kind))
		}
	}
}

// withdraw ends what there is of a kind.
func (v *View) withdraw(gvr schema.GroupVersionResource, e *entry) {
	delete(v.begun, gvr)
	v.show(v.now.Load().with(v.kinds, gvr, nil))
	e.above.end()
	e.below.end()
}

// begin starts what is missing of a kind.
func (v *View) begin(ctx context.Context, running *sync.WaitGroup, kind workload.Kind, served bool) {
	gvr := kind.GroupVersionResource()
	before := v.begun[gvr]
	served = served && !kind.Carries // what Manifests are below is of other kinds
	switch {
	case before != nil && served == (before.below != nil):
		return
	case before != nil && !served:
		e := &entry{kind: kind, above: before.above}
		v.begun[gvr] = e
		before.below.end()
		v.arrive(running, e)
		return
	}
	e := &entry{kind: kind}
	if before != nil {
		e.above = before.above
	} else {
		e.above = &watch{objects: v.informerAbove(kind)}
		v.run(ctx, running, e.above)
	}
	if served {
		e.below = &watch{objects: v.informerBelow(kind)}
		v.run(ctx, running, e.below)
	}
	v.begun[gvr] = e
	v.arrive(running, e)
}

// run runs one informer until it is ended, or ctx is done.
func (v *View) run(ctx context.Context, running *sync.WaitGroup, w *watch) {
	w.ctx, w.stop = context.WithCancel(ctx)
	running.Go(func() { w.Run(w.ctx) })
}

// arrive shows a kind as soon as its informers have their lists, unless another change
// comes first.
func (v *View) arrive(running *sync.WaitGroup, e *entry) {
	running.Go(func() {
		if !e.above.listed() || e.below != nil && !e.below.listed() {
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		gvr := e.kind.GroupVersionResource()
		if v.begun[gvr] != e {
			return
		}
		before := v.now.Load().entries[gvr]
		v.show(v.now.Load().with(v.kinds, gvr, e))
		v.handle(e)
		if before != nil {
			v.repeat(e)
		}
		v.repeatCopies(gvr)
	})
}

// repeat has what is above looked at once more: it is another question now whether the
// physical cluster serves it.
func (v *View) repeat(e *entry) {
	if v.handlers == nil {
		return
	}
	for obj := range e.above.All() {
		v.handlers.Above(v.change(e.kind, nil, obj, false))
	}
}

// repeatCopies does the same with Copies that nobody knew the kind of.
func (v *View) repeatCopies(gvr schema.GroupVersionResource) {
	if v.handlers == nil {
		return
	}
	for c := range v.copies.All() {
		if key, ok := v.KeyOfCopy(c); ok && key.Resource == gvr {
			v.handlers.Copy(key, syncer.CopyChange{New: c})
		}
	}
}

// show replaces what readers see; the lock is held.
func (v *View) show(w *watched) { v.now.Store(w) }

// change is what handlers get of an object, with what is said of its kind now.
func (v *View) change(kind workload.Kind, old, new *unstructured.Unstructured, own bool) syncer.Change {
	now, gvr := v.now.Load(), kind.GroupVersionResource()
	_, placed := now.placed(gvr)
	_, observed := now.observed(gvr)
	return syncer.Change{Target: v.Target, Kind: kind, Placed: placed, Observed: observed, Old: old, New: new, Own: own}
}

// recordedKey is the object of a Copy of which the catalog does not know the kind.
func recordedKey(c *placementv1alpha1.Copy) ObjectKey {
	key := KeyOfNamespace(logicalcluster.From(c), c.Namespace)
	o := c.Spec.Object
	key.Resource = schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource}
	key.Request.Namespace, key.Request.Name = c.Namespace, o.Name
	return key
}
