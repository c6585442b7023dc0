package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// store keeps objects by key and by the values of indexes. The stock indexer
// keeps a set of keys for each value: for an index by UID, which has one object
// for each value, the sets weigh more than the objects, and with many logical
// clusters that is what an informer costs. Here a value with one object holds
// just that.
type store[T Object] struct {
	mu      sync.RWMutex
	objects map[string]T
	indexes map[string]*index[T]
}

// index finds objects by value.
type index[T Object] struct {
	values  func(T) []string
	buckets map[string]bucket[T]
}

// bucket is a set of objects: one, or several by key.
type bucket[T Object] struct {
	one     T
	several map[string]T
}

func newStore[T Object](indexers map[string]func(T) []string) *store[T] {
	s := &store[T]{objects: map[string]T{}, indexes: make(map[string]*index[T], len(indexers))}
	for name, values := range indexers {
		s.indexes[name] = &index[T]{values: values, buckets: map[string]bucket[T]{}}
	}
	return s
}

// keyOf is the key of an object, the text of its Request.
func keyOf[T Object](obj T) string { return RequestFor(obj).String() }

func (s *store[T]) put(obj T) {
	key := keyOf(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, found := s.objects[key]
	s.objects[key] = obj
	for _, i := range s.indexes {
		if found {
			i.remove(key, old)
		}
		i.add(key, obj)
	}
}

func (s *store[T]) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, found := s.objects[key]
	if !found {
		return
	}
	delete(s.objects, key)
	for _, i := range s.indexes {
		i.remove(key, obj)
	}
}

func (s *store[T]) get(key string) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, found := s.objects[key]
	return obj, found
}

func (s *store[T]) list() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]T, 0, len(s.objects)), maps.Values(s.objects))
}

func (s *store[T]) all() map[string]T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.objects)
}

// keys are in order.
func (s *store[T]) keys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := slices.AppendSeq(make([]string, 0, len(s.objects)), maps.Keys(s.objects))
	slices.Sort(keys)
	return keys
}

// byIndex panics for an index that does not exist.
func (s *store[T]) byIndex(name, value string) []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, found := s.index(name).buckets[value]
	switch {
	case !found:
		return nil
	case b.several == nil:
		return []T{b.one}
	default:
		return slices.AppendSeq(make([]T, 0, len(b.several)), maps.Values(b.several))
	}
}

func (s *store[T]) count(name, value string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, found := s.index(name).buckets[value]
	switch {
	case !found:
		return 0
	case b.several == nil:
		return 1
	default:
		return len(b.several)
	}
}

func (s *store[T]) index(name string) *index[T] {
	i := s.indexes[name]
	if i == nil {
		panic(fmt.Sprintf("there is no index %q", name))
	}
	return i
}

func (i *index[T]) add(key string, obj T) {
	for _, value := range i.values(obj) {
		b, found := i.buckets[value]
		switch {
		case !found:
			b.one = obj
		case b.several != nil:
			b.several[key] = obj
			continue // the bucket itself is the same
		case keyOf(b.one) == key: // an indexer that gives a value twice
			b.one = obj
		default:
			b.several = map[string]T{keyOf(b.one): b.one, key: obj}
			b.one = *new(T)
		}
		i.buckets[value] = b
	}
}

func (i *index[T]) remove(key string, obj T) {
	for _, value := range i.values(obj) {
		b, found := i.buckets[value]
		switch {
		case !found:
		case b.several == nil:
			if keyOf(b.one) == key {
				delete(i.buckets, value)
			}
		default:
			delete(b.several, key)
			if len(b.several) == 0 {
				delete(i.buckets, value)
			}
		}
	}
}
