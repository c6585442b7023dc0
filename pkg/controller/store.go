package controller

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// store keeps objects by key and by the values of indexes.
type store[T Object] interface {
	put(key string, obj T)
	remove(key string)
	get(key string) (T, bool)
	// identity says what get would return.
	identity(key string) (identity, bool)
	// identities are by key; keys are in their order.
	identities() map[string]identity
	keys() []string
	// below are the objects whose keys begin with prefix, as they are now, in the order of the keys.
	below(prefix string) iter.Seq[T]
	// count is the number of those objects, or most, if there are more.
	count(prefix string, most int) int
	// byIndex are the objects with a value of an index, as they are now, and countIndex is their number; both
	// panic for an index that does not exist.
	byIndex(name, value string) iter.Seq[T]
	countIndex(name, value string) int
}

// degree of the trees: that of upstream's watch cache.
const degree = 16

// tree is a store in the order of the keys: the objects of a logical cluster or of a
// namespace lie beside each other, and need no index. The stock indexer keeps a set
// of keys for each value of an index: with many logical clusters that weighs more
// than the objects. What is kept of an object is a K, which knows nothing of its key.
type tree[T Object, K any] struct {
	form[T, K]

	mu      sync.RWMutex
	objects *btree.BTree[*element[K]]
	indexes map[string]*index[T]
}

// form is how objects are kept.
type form[T Object, K any] struct {
	pack     func(T) K
	unpack   func(key string, kept K) T
	identify func(K) identity
}

type element[K any] struct {
	key  string
	kept K
}

// newStore keeps objects as they are.
func newStore[T Object](indexers map[string]func(T) []string) store[T] {
	return newTree(indexers, form[T, T]{
		pack:     func(obj T) T { return obj },
		unpack:   func(_ string, obj T) T { return obj },
		identify: func(obj T) identity { return identityOf(obj) },
	})
}

func newTree[T Object, K any](indexers map[string]func(T) []string, f form[T, K]) *tree[T, K] {
	t := &tree[T, K]{
		form: f, indexes: make(map[string]*index[T], len(indexers)),
		objects: btree.New(degree, func(a, b *element[K]) bool { return a.key < b.key }),
	}
	for name, values := range indexers {
		t.indexes[name] = &index[T]{values: values, buckets: map[string]bucket{}}
	}
	return t
}

func (t *tree[T, K]) object(e *element[K]) T { return t.unpack(e.key, e.kept) }

func (t *tree[T, K]) put(key string, obj T) {
	e := &element[K]{key: key, kept: t.pack(obj)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, found := t.objects.ReplaceOrInsert(e); found {
		t.unindex(old)
	}
	for _, i := range t.indexes {
		i.add(key, obj)
	}
}

func (t *tree[T, K]) remove(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, found := t.objects.Delete(&element[K]{key: key}); found {
		t.unindex(old)
	}
}

// unindex forgets the values of an element; the lock is held.
func (t *tree[T, K]) unindex(e *element[K]) {
	if len(t.indexes) == 0 {
		return
	}
	obj := t.object(e)
	for _, i := range t.indexes {
		i.remove(e.key, obj)
	}
}

func (t *tree[T, K]) get(key string) (obj T, found bool) {
	e, found := t.element(key)
	if !found {
		return obj, false
	}
	return t.object(e), true
}

func (t *tree[T, K]) identity(key string) (identity, bool) {
	e, found := t.element(key)
	if !found {
		return identity{}, false
	}
	return t.identify(e.kept), true
}

func (t *tree[T, K]) element(key string) (*element[K], bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.objects.Get(&element[K]{key: key})
}

func (t *tree[T, K]) identities() map[string]identity {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[string]identity, t.objects.Len())
	t.objects.Ascend(func(e *element[K]) bool {
		out[e.key] = t.identify(e.kept)
		return true
	})
	return out
}

func (t *tree[T, K]) keys() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	keys := make([]string, 0, t.objects.Len())
	t.objects.Ascend(func(e *element[K]) bool {
		keys = append(keys, e.key)
		return true
	})
	return keys
}

func (t *tree[T, K]) below(prefix string) iter.Seq[T] {
	return t.objectsOf(t.elements(prefix))
}

// objectsOf makes each object when it is reached.
func (t *tree[T, K]) objectsOf(elements []*element[K]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, e := range elements {
			if !yield(t.object(e)) {
				return
			}
		}
	}
}

func (t *tree[T, K]) elements(prefix string) (out []*element[K]) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if prefix == "" {
		out = make([]*element[K], 0, t.objects.Len())
	}
	t.walk(prefix, func(e *element[K]) bool {
		out = append(out, e)
		return true
	})
	return out
}

func (t *tree[T, K]) count(prefix string, most int) (n int) {
	if most <= 0 {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if prefix == "" {
		return min(t.objects.Len(), most)
	}
	t.walk(prefix, func(*element[K]) bool {
		n++
		return n < most
	})
	return n
}

// walk calls f for each element below prefix until it returns false; the lock is held.
func (t *tree[T, K]) walk(prefix string, f func(*element[K]) bool) {
	t.objects.AscendGreaterOrEqual(&element[K]{key: prefix}, func(e *element[K]) bool {
		return strings.HasPrefix(e.key, prefix) && f(e)
	})
}

func (t *tree[T, K]) byIndex(name, value string) iter.Seq[T] {
	return t.objectsOf(t.indexed(name, value))
}

func (t *tree[T, K]) countIndex(name, value string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.index(name).count(value)
}

// index is one of the indexes; the lock is held.
func (t *tree[T, K]) index(name string) *index[T] {
	i := t.indexes[name]
	if i == nil {
		panic(fmt.Sprintf("there is no index %q", name))
	}
	return i
}

func (t *tree[T, K]) indexed(name, value string) (out []*element[K]) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, key := range t.index(name).keys(value) {
		if e, found := t.objects.Get(&element[K]{key: key}); found {
			out = append(out, e)
		}
	}
	return out
}

// index finds the keys of objects by value. Most values have one object: such a
// value costs no set.
type index[T Object] struct {
	values  func(T) []string
	buckets map[string]bucket
}

// bucket is a set of keys: one, or several.
type bucket struct {
	one     string
	several map[string]struct{}
}

// keys are those of a value, sorted: what is done about several objects does not depend on
// chance.
func (i *index[T]) keys(value string) []string {
	b, found := i.buckets[value]
	switch {
	case !found:
		return nil
	case b.several == nil:
		return []string{b.one}
	default:
		return slices.Sorted(maps.Keys(b.several))
	}
}

func (i *index[T]) count(value string) int {
	b, found := i.buckets[value]
	switch {
	case !found:
		return 0
	case b.several == nil:
		return 1
	default:
		return len(b.several)
	}
}

func (i *index[T]) add(key string, obj T) {
	for _, value := range i.values(obj) {
		b, found := i.buckets[value]
		switch {
		case !found:
			b.one = key
		case b.several != nil:
			b.several[key] = struct{}{}
			continue // the bucket itself is the same
		case b.one == key: // an indexer that gives a value twice
			continue
		default:
			b.several = map[string]struct{}{b.one: {}, key: {}}
			b.one = ""
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
			if b.one == key {
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
