package down

import (
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

// memory is what a session remembers of each object: to lose it costs a request, never
// a wrong decision. It has an entry for an object that has a place or a Copy here, at the
// most, and so it is bounded as the caches are.
type memory struct {
	mu      sync.Mutex
	objects map[view.ObjectKey]remembered
}

// remembered is what is remembered of one object.
type remembered struct {
	// settled is the Fingerprint after the last apply.
	settled string
	// reverts are the changes below that were put back lately.
	reverts syncer.Reverts
	// reported is when its Copy was written last.
	reported time.Time
	// applied is when it was applied last.
	applied time.Time
	// counting is since when a report of it waits for what it counts.
	counting time.Time
	// led is since when it leads to pods by Services by which it did not, see syncer.Settling.
	led map[string]time.Time
	// asked is, for a Namespace, the UID for which the server was asked what rules it.
	asked types.UID
	// refused is, for a Namespace, when the physical cluster refused it last.
	refused time.Time
	// uncounted is, for a quota, since when something waits for it to be counted.
	uncounted time.Time
}

func (r remembered) isEmpty() bool { return reflect.ValueOf(r).IsZero() }

func (m *memory) get(key view.ObjectKey) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[key]
}

// change remembers something else; an entry that says nothing is dropped.
func (m *memory) change(key view.ObjectKey, f func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.objects[key]
	f(&r)
	if r.isEmpty() {
		delete(m.objects, key)
		return
	}
	if m.objects == nil {
		m.objects = map[view.ObjectKey]remembered{}
	}
	m.objects[key] = r
}

func (m *memory) forget(key view.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.objects)
}

// keyedMutex keeps two workers from the same key, also while one of them waits for
// a server. It holds a channel for each key that somebody works on: other than a
// sync.Mutex, a channel may be waited for while a simulation stands still.
type keyedMutex struct {
	mu   sync.Mutex
	keys map[view.ObjectKey]*keyLock
}

// keyLock is taken by sending, and given back by receiving.
type keyLock struct {
	held  chan struct{}
	users int
}

func (k *keyedMutex) lock(key view.ObjectKey) (unlock func()) {
	k.mu.Lock()
	if k.keys == nil {
		k.keys = map[view.ObjectKey]*keyLock{}
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

// closing are the physical namespaces that are about to be deleted. Nothing new is put into one: who looked for
// Copies in it and found none would not know of that. What has its Copy before the look is found by it; what gets
// it later asks here before it is made.
type closing struct {
	mu         sync.Mutex
	namespaces map[string]bool
}

// begin has nothing put into a namespace until end is called. One at a time has it, as one pass over its Namespace.
func (c *closing) begin(namespace string) (end func()) {
	c.set(namespace, true)
	return func() { c.set(namespace, false) }
}

func (c *closing) set(namespace string, closes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !closes {
		delete(c.namespaces, namespace)
		return
	}
	if c.namespaces == nil {
		c.namespaces = map[string]bool{}
	}
	c.namespaces[namespace] = true
}

func (c *closing) has(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.namespaces[namespace]
}
