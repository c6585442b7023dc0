package agent

import (
	"hash/maphash"
	"sync"
)

// notes are small facts about objects, remembered for as long as a session
// lasts: losing them costs a request, never a wrong decision.
type notes[V comparable] struct {
	mu sync.Mutex
	m  map[objectKey]V
}

func newNotes[V comparable]() *notes[V] { return &notes[V]{m: map[objectKey]V{}} }

func (n *notes[V]) get(key objectKey) V {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m[key]
}

// put reports whether that is news.
func (n *notes[V]) put(key objectKey, value V) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, ok := n.m[key]
	n.m[key] = value
	return !ok || before != value
}

// drop reports whether there was something to drop.
func (n *notes[V]) drop(key objectKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.m[key]
	delete(n.m, key)
	return ok
}

func (n *notes[V]) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.m)
}

// keyedMutex keeps two workers from the same key; different keys may share a
// lock.
type keyedMutex struct {
	once  sync.Once
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func (k *keyedMutex) lock(key objectKey) (unlock func()) {
	k.once.Do(func() { k.seed = maphash.MakeSeed() })
	l := &k.locks[maphash.Comparable(k.seed, key)%uint64(len(k.locks))]
	l.Lock()
	return l.Unlock
}
