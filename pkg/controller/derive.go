package controller

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// derive makes an informer of what reduce makes of the objects of another one. It
// has no list and no watch of its own: it is as current as the other, and what both
// keep of an object is in memory once.
func derive[S, T Object](name string, from *Informer[S], reduce func(S) T, kept store[T]) *Informer[T] {
	i := &Informer[T]{name: name, store: kept, synced: make(chan struct{}), again: func() {}}
	i.follow = func(ctx context.Context) {
		if from.WaitForSync(ctx) != nil {
			return
		}
		from.Handle(func(old, new S) {
			i.mu.Lock()
			defer i.mu.Unlock()
			if isZero(new) {
				sink[T]{i}.remove(RequestFor(old).String())
				return
			}
			sink[T]{i}.keep(RequestFor(new).String(), reduce(new), false)
		})
		i.syncOnce.Do(func() { close(i.synced) })
		<-ctx.Done()
	}
	return i
}

// Source is where Metadata gets the metadata of a resource, without a watch of its
// own: see From.
type Source struct {
	resource schema.GroupVersionResource
	informer func(name string, m *Metadata) *Informer[*metav1.PartialObjectMetadata]
}

// From takes the metadata of a resource from an informer that has all objects of it,
// whole.
func From[T interface {
	Object
	metav1.ObjectMetaAccessor
}](resource schema.GroupVersionResource, informer *Informer[T]) Source {
	return Source{resource: resource, informer: func(name string, m *Metadata) *Informer[*metav1.PartialObjectMetadata] {
		return derive(name, informer, func(obj T) *metav1.PartialObjectMetadata {
			return m.reduce(obj.GetObjectMeta())
		}, newPackedStore(m.indexers))
	}}
}

// reduce keeps the metadata of an object that others keep, too: it shares what is
// in it, and changes nothing.
func (m *Metadata) reduce(obj metav1.Object) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	if whole, ok := obj.(*metav1.ObjectMeta); ok {
		o.ObjectMeta = *whole
	}
	o.ManagedFields = nil
	if _, ok := o.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		o.Annotations = maps.Clone(o.Annotations)
		delete(o.Annotations, corev1.LastAppliedConfigAnnotation)
		o.Annotations = m.maps.Intern(o.Annotations)
	}
	return o
}
