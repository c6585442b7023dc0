package agent

import "sync"

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

// keyedMutex keeps two workers from the same key, also while one of them waits for
// a server. It holds a channel for each key that somebody works on: other than a
// sync.Mutex, a channel may be waited for while a simulation stands still.
type keyedMutex struct {
	mu   sync.Mutex
	keys map[objectKey]*keyLock
}

// keyLock is taken by sending, and given back by receiving.
type keyLock struct {
	held  chan struct{}
	users int
}

func (k *keyedMutex) lock(key objectKey) (unlock func()) {
	k.mu.Lock()
	if k.keys == nil {
		k.keys = map[objectKey]*keyLock{}
	}
	t := k.keys[key]
	if t == nil {
		t = &keyLock{held: make(chan struct{}, 1)}
		k.keys[key] = t
	}
	t.users++
	k.mu.Unlock()
	t.held <- struct{}{}
	return func() {
		<-t.held
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(k.keys, key)
		}
	}
}
