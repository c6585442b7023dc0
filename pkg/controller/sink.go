package controller

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// sink is what the reflector fills: it keeps the store and tells the handlers.
type sink[T Object] struct{ i *Informer[T] }

// rawKey is the key of an object as the reflector hands it over.
func rawKey(obj any) (string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	return RequestFor(m).String(), nil
}

// Add implements cache.ReflectorStore.
func (s sink[T]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s sink[T]) Update(obj any) error {
	if err := s.update(obj); err != nil {
		return err
	}
	if !s.i.allowance.wait(s.i.context()) {
		return errEnded
	}
	return nil
}

func (s sink[T]) update(obj any) error {
	s.i.mu.Lock()
	defer s.i.mu.Unlock()
	_, err := s.put(obj, false)
	return err
}

// Delete implements cache.ReflectorStore.
func (s sink[T]) Delete(obj any) error {
	key, err := rawKey(obj)
	if err != nil {
		return err
	}
	s.i.mu.Lock()
	defer s.i.mu.Unlock()
	s.remove(key)
	return nil
}

// Replace implements cache.ReflectorStore: objs is the complete list. An object
// that is not in it is gone.
func (s sink[T]) Replace(objs []any, version string) error {
	s.i.lists.Store(true)
	defer s.i.lists.Store(false)
	current := s.i.listed(version)
	ctx := s.i.context()
	listed := make(map[string]bool, len(objs))
	for len(objs) > 0 {
		next := len(objs)
		if s.i.allowance != nil {
			next = min(next, listedAtOnce)
		}
		if err := s.replace(objs[:next], listed); err != nil {
			return err
		}
		if !s.i.allowance.wait(ctx) {
			return errEnded // and nothing is gone for it
		}
		objs = objs[next:]
	}
	s.i.mu.Lock()
	defer s.i.mu.Unlock()
	for _, key := range s.i.store.keys() {
		if !listed[key] {
			s.remove(key)
		}
	}
	if current {
		s.i.position.Store(&version)
	}
	s.i.syncOnce.Do(func() { close(s.i.synced) })
	return nil
}

// listedAtOnce is how many objects of a list are taken before the allowance is looked at.
const listedAtOnce = 100

// errEnded says that nothing more is taken.
var errEnded = errors.New("the informer has ended")

// replace keeps some objects of a list, and notes them.
func (s sink[T]) replace(objs []any, listed map[string]bool) error {
	s.i.mu.Lock()
	defer s.i.mu.Unlock()
	for _, obj := range objs {
		key, err := s.put(obj, true)
		if err != nil {
			return err
		}
		listed[key] = true
	}
	return nil
}

// UpdateResourceVersion implements cache.ResourceVersionUpdater: an event that was
// handed over, or a bookmark, had that version.
func (s sink[T]) UpdateResourceVersion(version string) {
	s.i.seen.raise(version)
	if before := s.i.position.Load(); before != nil { // else a list comes first
		s.i.position.CompareAndSwap(before, &version)
	}
}

// Resync implements cache.ReflectorStore.
func (s sink[T]) Resync() error { return nil }

// put keeps obj and tells the handlers; a relist tells them only of objects
// that changed.
func (s sink[T]) put(obj any, relist bool) (string, error) {
	key, err := rawKey(obj)
	if err != nil {
		return "", err
	}
	next, err := s.transform(obj)
	if err != nil {
		// What cannot be read stays as it was known: it is not gone.
		utilruntime.HandleError(fmt.Errorf("informer %s: %s: %w", s.i.name, key, err))
		return key, nil
	}
	if isZero(next) {
		s.remove(key)
		return key, nil
	}
	s.keep(key, next, relist)
	return key, nil
}

// keep keeps what the transform made of an object.
func (s sink[T]) keep(key string, next T, relist bool) {
	old, found := s.i.store.get(key)
	if found && old.GetUID() != next.GetUID() {
		s.remove(key)
		old, found = *new(T), false
	}
	s.i.store.put(key, next)
	if found {
		s.i.allowance.change(old, next)
	} else {
		s.i.allowance.change(nil, next)
	}
	if relist && found && old.GetResourceVersion() != "" && old.GetResourceVersion() == next.GetResourceVersion() {
		return
	}
	s.notify(old, next)
}

func (s sink[T]) remove(key string) {
	old, found := s.i.store.get(key)
	if !found {
		return
	}
	s.i.store.remove(key)
	s.i.allowance.change(old, nil)
	s.notify(old, *new(T))
}

func (s sink[T]) notify(old, next T) {
	for _, f := range s.i.handlers {
		f(old, next)
	}
	s.i.notifyViews(old, next)
}

func (s sink[T]) transform(obj any) (T, error) {
	o, ok := obj.(runtime.Object)
	if !ok {
		return *new(T), fmt.Errorf("unexpected %T", obj)
	}
	return s.i.transform(o)
}

// slim is the transform of an informer without one.
func (i *Informer[T]) slim(obj runtime.Object) (T, error) {
	t, err := withoutManagedFields[T](obj)
	if _, made := obj.(*unstructured.Unstructured); err != nil || made { // it makes its maps for each call
		return t, err
	}
	t.SetLabels(i.maps.Intern(t.GetLabels()))
	t.SetAnnotations(i.maps.Intern(t.GetAnnotations()))
	return t, nil
}

func withoutManagedFields[T Object](obj runtime.Object) (T, error) {
	t, ok := obj.(T)
	if !ok {
		return t, fmt.Errorf("unexpected %T", obj)
	}
	t.SetManagedFields(nil)
	return t, nil
}

func isZero[T metav1.Object](obj T) bool { return any(obj) == any(*new(T)) }
