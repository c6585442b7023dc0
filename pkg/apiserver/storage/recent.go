package storage

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// recentKept is more than the events that are on their way through the
// watch cache at any time (100 in its queue, at most 2000 in those of a watch).
const recentKept = 2560

// recentObjects remembers, by pointer, the objects that went last into the watch
// cache. The watch cache hands its watchers wrappers that can only be unwrapped
// by a deep copy; with the pointer the hub shares the object instead, so that
// views double neither the memory of the watch cache nor the work per event.
// Whoever does not find an object here copies. Events come in the order in which their
// objects went in, so what is found, and all before it, is not asked for again and is
// forgotten: it would keep thousands of versions in memory that nobody needs.
type recentObjects struct {
	// on is set while somebody looks.
	on   atomic.Bool
	mu   sync.Mutex
	ring []runtime.Object // recentKept, once somebody looks
	next int
}

// add notes an object that is about to enter the watch cache.
func (s *recentObjects) add(obj runtime.Object) {
	if !s.on.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ring == nil {
		s.ring = make([]runtime.Object, recentKept)
	}
	s.ring[s.next] = obj
	s.next = (s.next + 1) % recentKept
}

// attrs wraps the function that the watch cache calls once for every object that
// enters it, before it tells anybody.
func (s *recentObjects) attrs(inner storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		s.add(obj)
		return inner(obj)
	}
}

// find returns the object that m describes, newest first, or nil.
func (s *recentObjects) find(m metav1.Object) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i <= len(s.ring); i++ {
		obj := s.ring[(s.next-i+len(s.ring))%len(s.ring)]
		if obj == nil {
			return nil
		}
		if o, err := meta.Accessor(obj); err == nil && same(o, m) {
			s.forget(i)
			return obj
		}
	}
	return nil
}

// forget drops the i-th newest object and those before it; the lock is held.
func (s *recentObjects) forget(i int) {
	for ; i <= len(s.ring); i++ {
		at := (s.next - i + len(s.ring)) % len(s.ring)
		if s.ring[at] == nil {
			return
		}
		s.ring[at] = nil
	}
}

// same reports whether a and b are the same version of the same object:
// resource versions are unique in etcd, the rest is belt and braces.
func same(a, b metav1.Object) bool {
	return a.GetResourceVersion() == b.GetResourceVersion() && a.GetUID() == b.GetUID() &&
		a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace()
}
