package garbagecollector

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// changed enqueues what a change of one object makes worth looking at.
func (c *Controller) changed(gvr schema.GroupVersionResource, old, obj *metav1.PartialObjectMetadata) {
	if obj == nil {
		c.enqueueDependents(old)
		for _, ref := range old.OwnerReferences {
			c.enqueueWaiting(old, ref)
		}
		return
	}
	var oldRefs []metav1.OwnerReference
	if old != nil {
		oldRefs = old.OwnerReferences
	}
	if !slices.EqualFunc(oldRefs, obj.OwnerReferences, sameReference) {
		if len(obj.OwnerReferences) > 0 {
			c.enqueue(gvr, obj)
		}
		for _, ref := range unblocked(oldRefs, obj.OwnerReferences) {
			c.enqueueWaiting(obj, ref)
		}
	}
	switch {
	case starts(old, obj, metav1.FinalizerOrphanDependents):
		c.enqueue(gvr, obj)
	case starts(old, obj, metav1.FinalizerDeleteDependents):
		c.enqueueDependents(obj)
		c.enqueue(gvr, obj)
	}
}

func (c *Controller) enqueue(gvr schema.GroupVersionResource, obj *metav1.PartialObjectMetadata) {
	c.queue.Enqueue(item{
		Cluster: logicalcluster.From(obj), Resource: gvr,
		Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID,
	})
}

func (c *Controller) enqueueDependents(obj *metav1.PartialObjectMetadata) {
	c.dependents(logicalcluster.From(obj), obj.UID, func(gvr schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
		c.enqueue(gvr, d)
	})
}

// enqueueWaiting enqueues the owner that ref names if it waits for dependents.
func (c *Controller) enqueueWaiting(obj *metav1.PartialObjectMetadata, ref metav1.OwnerReference) {
	key := controller.UIDKey(logicalcluster.From(obj), ref.UID)
	for gvr, informer := range c.Metadata.All() {
		for _, o := range informer.ByIndex(waitingIndex, key) {
			c.enqueue(gvr, o)
		}
	}
}

// waitingIndex finds an object that waits for its dependents under
// UIDKey(cluster, UID).
const waitingIndex = "atoll.waiting"

// Indexers are those that the Metadata must have.
func Indexers() map[string]func(*metav1.PartialObjectMetadata) []string {
	return map[string]func(*metav1.PartialObjectMetadata) []string{waitingIndex: func(o *metav1.PartialObjectMetadata) []string {
		if !deletesDependents(o) {
			return nil
		}
		return []string{controller.UIDKey(logicalcluster.From(o), o.UID)}
	}}
}

// starts says whether obj is being deleted with a finalizer while old was not.
func starts(old, obj *metav1.PartialObjectMetadata, finalizer string) bool {
	return deletesWith(obj, finalizer) && (old == nil || !deletesWith(old, finalizer))
}

func deletesWith(obj *metav1.PartialObjectMetadata, finalizer string) bool {
	return obj.DeletionTimestamp != nil && slices.Contains(obj.Finalizers, finalizer)
}

func deletesDependents(obj *metav1.PartialObjectMetadata) bool {
	return deletesWith(obj, metav1.FinalizerDeleteDependents)
}

// unblocked are the references of old that blocked their owner and no longer do.
func unblocked(old, refs []metav1.OwnerReference) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, was := range old {
		if blocks(was) && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == was.UID && blocks(r) }) {
			out = append(out, was)
		}
	}
	return out
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

func sameReference(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion && blocks(a) == blocks(b)
}
