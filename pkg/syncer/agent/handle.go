package agent

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// handle connects informers and queues; what the informers hold is replayed.
func (s *session) handle() {
	for gvr, i := range s.logical {
		placed, isPlaced := s.placed[gvr]
		i.Handle(func(old, new *unstructured.Unstructured) {
			if isPlaced {
				s.logicalChanged(placed, old, new)
			}
			s.counterpartChanged(gvr, old, new)
		})
	}
	for gvr, i := range s.below {
		i.Handle(func(old, new *unstructured.Unstructured) { s.belowChanged(gvr, old, new) })
	}
	s.copies.Handle(s.copyChanged)
	s.listed.Handle(s.orphanRecordChanged)
	s.events.Handle(func(_, new *unstructured.Unstructured) {
		if new != nil {
			s.eventQueue.Enqueue(new.GetNamespace() + "/" + new.GetName())
		}
	})
}

// logicalChanged: an object that is, or was, to have a copy here.
func (s *session) logicalChanged(kind workload.Kind, old, new *unstructured.Unstructured) {
	obj := new
	if obj == nil {
		obj = old
	}
	if s.broughtUp(obj) || (old != nil && new != nil && onlyStatus(old, new) && syncer.CopiedGatesBelow(new, old) == nil) {
		return
	}
	key := keyOf(kind, obj)
	s.objectQueue.Enqueue(key)
	s.claimChanged(key)
	if came(old, new) {
		s.ownerCame(key)
	}
	if kind.Role == workload.Container && new != nil && (came(old, new) || len(physicalName(old)) == 0) {
		s.namespaceNamed(key, new)
	}
	if kind.Kind == "HorizontalPodAutoscaler" {
		s.scalerChanged(obj)
	}
}

// broughtUp says that an object never had a copy here.
func (s *session) broughtUp(obj *unstructured.Unstructured) bool {
	entry := stamp.TargetsOf(obj.GetAnnotations())[s.target]
	return entry.State == placementv1alpha1.TargetObserved && !entry.Adopted
}

// came says that an object is new to us, or back to life after a backup was
// restored.
func came(old, new *unstructured.Unstructured) bool {
	return new != nil && (old == nil || old.GetDeletionTimestamp() != nil && new.GetDeletionTimestamp() == nil)
}

// ownerCame: what the copies of an object own below may have waited for it.
func (s *session) ownerCame(key objectKey) {
	if below := s.below[key.Resource]; below != nil {
		for _, copied := range below.ByIndex(byMark, key.Request.String()) {
			s.dependentsOf(copied.GetUID())
		}
	}
}

// onlyStatus says that what changed is nothing that goes down. Kinds without a
// generation are looked at each time.
func onlyStatus(old, new *unstructured.Unstructured) bool {
	return new.GetGeneration() > 0 && old.GetGeneration() == new.GetGeneration() && old.GetUID() == new.GetUID() &&
		(old.GetDeletionTimestamp() == nil) == (new.GetDeletionTimestamp() == nil) &&
		maps.Equal(old.GetLabels(), new.GetLabels()) && maps.Equal(old.GetAnnotations(), new.GetAnnotations()) &&
		slices.Equal(old.GetFinalizers(), new.GetFinalizers())
}

// namespaceNamed: what waited for the name of the physical namespace can go on,
// down and up. A Namespace that comes back after a list that lacked it is one, too.
func (s *session) namespaceNamed(namespace objectKey, obj *unstructured.Unstructured) {
	for _, name := range physicalName(obj) {
		for gvr := range s.observed {
			for _, below := range s.below[gvr].ListNamespace("", name) {
				s.observationQueue.Enqueue(observationKey{Resource: gvr, UID: below.GetUID()})
			}
		}
	}
	for gvr, kind := range s.placed {
		if kind.Role == workload.Container {
			continue
		}
		for _, obj := range s.logical[gvr].ListNamespace(namespace.Request.Cluster, namespace.Request.Name) {
			s.objectQueue.Enqueue(keyOf(kind, obj))
		}
	}
}

func (s *session) scalerChanged(scaler *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", "kind")
	name, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", "name")
	version, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", "apiVersion")
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return
	}
	if k, ok := s.kinds.ByKind(schema.GroupKind{Group: gv.Group, Kind: kind}); ok {
		r := controller.RequestFor(scaler)
		r.Name = name
		s.objectQueue.Enqueue(objectKey{Resource: k.GroupVersionResource(), Request: r})
	}
}

// counterpartChanged: an object that was mirrored.
func (s *session) counterpartChanged(gvr schema.GroupVersionResource, old, new *unstructured.Unstructured) {
	for _, obj := range []*unstructured.Unstructured{old, new} {
		if obj == nil {
			continue
		}
		for _, uid := range s.entryUID(obj) {
			key := observationKey{Resource: gvr, UID: types.UID(uid)}
			if obj == new && s.writtenLogical.arrived(key, new) && old != nil {
				continue // the echo of our update
			}
			if new == nil {
				s.writtenLogical.forget(key, obj.GetUID())
			}
			s.observationQueue.Enqueue(key)
			if old == nil || new == nil {
				s.dependentsOf(types.UID(uid))
			}
		}
	}
}

// dependentsOf enqueues what an object below owns: it may have waited for the
// mirror of its owner, or is a copy that the owner adopted.
func (s *session) dependentsOf(uid types.UID) {
	for gvr := range s.observed {
		for _, obj := range s.below[gvr].ByIndex(byOwner, string(uid)) {
			if kind := s.placed[gvr]; s.isCopy(gvr, obj) {
				mark, _ := syncer.MarkOf(gvr.GroupResource(), obj)
				s.objectQueue.Enqueue(keyOfMark(kind, mark))
				continue
			}
			s.observationQueue.Enqueue(observationKey{Resource: gvr, UID: obj.GetUID()})
		}
	}
}

// isCopy says that an object below is the copy of one above, and is not to be mirrored:
// what carries a mark was made as a copy, but a controller may have adopted it, or
// nothing above knows of it any more.
func (s *session) isCopy(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) bool {
	kind, isPlaced := s.placed[gvr]
	mark, marked := syncer.MarkOf(gvr.GroupResource(), obj)
	if !isPlaced || !marked || first(s.logical[gvr].ByIndex(byEntryUID, string(obj.GetUID()))) != nil {
		return false
	}
	key := keyOfMark(kind, mark)
	informed, found := s.copies.Get(copyRequest(key, s.target))
	if _, recorded := s.writtenCopies.pick(key, informed, found); recorded {
		return true
	}
	logical, ok := s.logical[gvr].Get(key.Request)
	return ok && logical.GetUID() == mark.UID && len(s.entryUID(logical)) == 0
}

// belowChanged: a copy, or what controllers below made.
func (s *session) belowChanged(gvr schema.GroupVersionResource, old, new *unstructured.Unstructured) {
	for _, obj := range []*unstructured.Unstructured{old, new} {
		if obj == nil {
			continue
		}
		kind, isPlaced := s.placed[gvr]
		mark, marked := syncer.MarkOf(gvr.GroupResource(), obj)
		switch {
		case isPlaced && marked:
			key := keyOfMark(kind, mark)
			if new == nil {
				s.writtenBelow.forget(key, obj.GetUID())
			}
			if obj == new && s.writtenBelow.arrived(key, new) {
				break
			}
			s.objectQueue.Enqueue(key)
			for _, o := range s.listed.ByIndex(byUID, string(obj.GetUID())) {
				s.orphanQueue.Enqueue(o.Name)
			}
		}
		if _, ok := s.observed[gvr]; ok && !s.isCopy(gvr, obj) {
			s.observationQueue.Enqueue(observationKey{Resource: gvr, UID: obj.GetUID()})
		}
		if old == nil {
			s.dependentsOf(obj.GetUID())
		}
	}
}

func (s *session) copyChanged(old, new *placementv1alpha1.Copy) {
	c := new
	if c == nil {
		c = old
	}
	key, ok := keyOfCopy(s.kinds, c)
	if !ok {
		return
	}
	if new == nil {
		s.writtenCopies.forget(key, old.UID)
		s.noCopy(key)
	}
	s.claimChanged(key)
	if new == nil || !s.writtenCopies.arrived(key, new) || old == nil && new.Status.State != placementv1alpha1.CopyPending {
		s.objectQueue.Enqueue(key)
	}
	if new == nil || new.Status.State == placementv1alpha1.CopyRemoved {
		// A Namespace goes after everything in it.
		s.objectQueue.Enqueue(keyOfNamespace(key.Request.Cluster, c.Namespace))
	}
}

// noCopy: what is below is nobody's copy any more, so it may be mirrored.
func (s *session) noCopy(key objectKey) {
	if _, ok := s.observed[key.Resource]; !ok {
		return
	}
	for _, obj := range s.below[key.Resource].ByIndex(byMark, key.Request.String()) {
		s.observationQueue.Enqueue(observationKey{Resource: key.Resource, UID: obj.GetUID()})
	}
}

// untouched keeps a physical object as it is.
func untouched(obj runtime.Object) (*unstructured.Unstructured, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	return u, nil
}
