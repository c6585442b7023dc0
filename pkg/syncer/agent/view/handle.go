package view

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Handlers are called for each change, and must only enqueue. What is there already is
// replayed as new, and once more if it becomes another question whether the physical
// cluster serves its kind.
type Handlers struct {
	// Above and Below are called for objects of the two sides.
	Above, Below func(syncer.Change)
	// Copy is called with the object of a Copy.
	Copy func(key ObjectKey, c syncer.CopyChange)
	// Orphan is called for the records of orphans.
	Orphan func(old, new *fleetv1alpha1.Orphan)
	// Account is called for a service account that came, changed, or is gone.
	Account func(controller.Request)
	// Import is called for a ServiceImport that came, changed, or is gone.
	Import func(controller.Request)
	// Pods is called with the logical cluster of a PodImport that came, changed, or is gone.
	Pods func(controller.Request)
	// Event is called for an event of the physical cluster.
	Event func(*unstructured.Unstructured)
}

// Handle has the handlers called from now on, also for kinds that come later.
func (v *View) Handle(h Handlers) {
	v.mu.Lock()
	v.handlers = &h
	for _, e := range v.now.Load().inOrder() {
		v.handle(e)
	}
	v.mu.Unlock()
	v.copies.Handle(func(old, new *placementv1alpha1.Copy) {
		c := syncer.CopyChange{Old: old, New: new}
		if key, ok := v.KeyOfCopy(c.Copy()); ok {
			c.Own = v.arrivedCopy(key, old, new)
			h.Copy(key, c)
		}
	})
	v.orphans.Handle(h.Orphan)
	v.accounts.Handle(func(old, new *unstructured.Unstructured) {
		if new == nil {
			new = old
		}
		h.Account(controller.RequestFor(new))
	})
	v.imports.Handle(func(old, new *placementv1alpha1.ServiceImport) {
		if new == nil {
			new = old
		}
		h.Import(controller.RequestFor(new))
	})
	v.pods.Handle(func(old, new *placementv1alpha1.PodImport) {
		if new == nil {
			new = old
		}
		h.Pods(controller.Request{Cluster: controller.RequestFor(new).Cluster})
	})
	v.events.Handle(func(_, new *unstructured.Unstructured) {
		if new != nil {
			h.Event(new)
		}
	})
}

// handle has changes of one kind handled; the lock is held.
func (v *View) handle(e *entry) {
	h, kind := v.handlers, e.kind
	if h == nil {
		return
	}
	if !e.above.handled {
		e.above.handled = true
		e.above.Handle(func(old, new *unstructured.Unstructured) {
			h.Above(v.change(kind, old, new, v.arrivedAbove(kind, old, new)))
		})
	}
	if e.below != nil && !e.below.handled {
		e.below.handled = true
		e.below.Handle(func(old, new *unstructured.Unstructured) {
			h.Below(v.change(kind, old, new, v.arrivedBelow(kind, old, new)))
		})
	}
}

// arrivedAbove notes what the watch says of a mirror, and whether that is an own write.
func (v *View) arrivedAbove(kind workload.Kind, old, new *unstructured.Unstructured) (own bool) {
	obj := new
	if obj == nil {
		obj = old
	}
	uid := syncer.MirroredUID(v.Target, obj)
	if uid == "" {
		return false
	}
	key := MirrorKey{Resource: kind.GroupVersionResource(), UID: uid}
	if new == nil {
		v.WrittenMirrors.Forget(key, obj.GetUID())
		return false
	}
	return v.WrittenMirrors.Arrived(key, new)
}

// arrivedBelow does the same for a copy.
func (v *View) arrivedBelow(kind workload.Kind, old, new *unstructured.Unstructured) (own bool) {
	obj := new
	if obj == nil {
		obj = old
	}
	mark, marked := syncer.MarkOf(kind.GroupResource(), obj)
	if !marked || !v.IsPlaced(kind.GroupVersionResource()) {
		return false
	}
	key := KeyOfMark(kind, mark)
	if new == nil {
		v.WrittenBelow.Forget(key, obj.GetUID())
		return false
	}
	return v.WrittenBelow.Arrived(key, new)
}

// arrivedCopy does the same for a Copy.
func (v *View) arrivedCopy(key ObjectKey, old, new *placementv1alpha1.Copy) (own bool) {
	if new == nil {
		v.WrittenCopies.Forget(key, old.UID)
		return false
	}
	return v.WrittenCopies.Arrived(key, new)
}
