package storage

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// The fields that storedAttrs knows.
const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// customStore is the storage of one version of one definition. Single objects are
// those of the embedded store, without a watch cache.
type customStore struct {
	*store
	// codec reads what is stored as the version and schema of the definition say.
	codec runtime.Codec
	// cache is shared by all definitions of the resource.
	cache func(context.Context) (*store, error)
}

// onStored reports whether a field selector can be decided on an object as it is
// stored: fields that a definition makes selectable depend on its version.
func onStored(selector fields.Selector) bool {
	if selector == nil {
		return true
	}
	for _, r := range selector.Requirements() {
		if r.Field != nameField && r.Field != namespaceField {
			return false
		}
	}
	return true
}

// GetList implements storage.Interface.
func (s *customStore) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	if !o.Recursive || !onStored(o.Predicate.Field) {
		return s.store.GetList(ctx, key, o, list)
	}
	cached, err := s.cache(ctx)
	if err != nil {
		return err
	}
	o.Predicate.GetAttrs = storedAttrs
	if err := cached.GetList(ctx, key, o, list); err != nil {
		return err
	}
	l, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("%T is no list of custom resources", list)
	}
	for i := range l.Items {
		obj, err := s.convert(&l.Items[i])
		if err != nil {
			return err
		}
		l.Items[i] = *obj
	}
	return nil
}

// Watch implements storage.Interface.
func (s *customStore) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	if !onStored(o.Predicate.Field) {
		return s.store.Watch(ctx, key, o)
	}
	cached, err := s.cache(ctx)
	if err != nil {
		return nil, err
	}
	o.Predicate.GetAttrs = storedAttrs
	w, err := cached.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return newConverted(ctx, s, w), nil
}

// convert turns an object of the watch cache into one of the definition.
func (s *customStore) convert(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := obj.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", s.gr, obj.GetName(), err)
	}
	decoded, _, err := s.codec.Decode(data, nil, s.newFunc())
	if err != nil {
		return nil, fmt.Errorf("decoding %s %s: %w", s.gr, obj.GetName(), err)
	}
	u, ok := decoded.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("decoding %s %s: got a %T", s.gr, obj.GetName(), decoded)
	}
	return u, nil
}

func (s *customStore) convertEvent(e watch.Event) watch.Event {
	if e.Type == watch.Error {
		return e
	}
	obj := e.Object
	if shared, ok := obj.(runtime.CacheableObject); ok {
		obj = shared.GetObject()
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return watch.Event{Type: watch.Error, Object: statusOf(fmt.Errorf("watching %s: got a %T", s.gr, obj))}
	}
	if e.Type == watch.Bookmark { // has a version and annotations only
		bookmark := u.DeepCopy()
		bookmark.SetGroupVersionKind(s.newFunc().GetObjectKind().GroupVersionKind())
		return watch.Event{Type: e.Type, Object: bookmark}
	}
	converted, err := s.convert(u)
	if err != nil {
		return watch.Event{Type: watch.Error, Object: statusOf(err)}
	}
	return watch.Event{Type: e.Type, Object: converted}
}

// converted is a watch whose objects pass the codec of a definition.
type converted struct {
	stream
	inner watch.Interface
}

func newConverted(ctx context.Context, s *customStore, inner watch.Interface) *converted {
	c := &converted{stream: newStream(0), inner: inner}
	go func() {
		defer close(c.events)
		defer inner.Stop()
		for e := range inner.ResultChan() {
			e = s.convertEvent(e)
			if !c.send(ctx, e) || e.Type == watch.Error {
				return
			}
		}
	}()
	return c
}

// Stop implements watch.Interface.
func (c *converted) Stop() {
	c.stop()
	c.inner.Stop()
}
