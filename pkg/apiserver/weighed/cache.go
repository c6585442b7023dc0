package weighed

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// Cache keeps values up to a weight.
type Cache[K comparable, V any] struct {
	most  int64
	weigh func(V) int64

	mu      sync.Mutex
	entries map[K]*entry[K, V]
	used    list.List // of *entry[K, V] that are ready, the last used first
	weight  int64
}

// entry is a value, or the making of one.
type entry[K comparable, V any] struct {
	key    K
	made   chan struct{} // closed when value and err are set
	value  V
	err    error
	weight int64
	place  *list.Element // nil while it is made, and when it is not kept
}

// New makes a cache of at most so many bytes, by what weigh says of each value.
func New[K comparable, V any](most int64, weigh func(V) int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, weigh: weigh, entries: map[K]*entry[K, V]{}}
}

// Get returns what is kept for key, or what makeValue makes of it, once for all who ask
// meanwhile. An error is not kept, and is that of the caller who made it: another one
// who waited makes it himself. It returns the error of ctx if that ends while another caller makes it.
func (c *Cache[K, V]) Get(ctx context.Context, key K, makeValue func() (V, error)) (V, error) {
	for {
		c.mu.Lock()
		e, known := c.entries[key]
		if !known {
			e = &entry[K, V]{key: key, made: make(chan struct{})}
			c.entries[key] = e
			c.mu.Unlock()
			return c.fill(e, makeValue)
		}
		if e.place != nil {
			c.used.MoveToFront(e.place)
			c.mu.Unlock()
			return e.value, nil
		}
		c.mu.Unlock()
		select {
		case <-e.made:
			if e.err == nil {
				return e.value, nil
			}
		case <-ctx.Done():
			var none V
			return none, context.Cause(ctx)
		}
	}
}

// fill makes the value of e. A panic of makeValue leaves nothing behind.
func (c *Cache[K, V]) fill(e *entry[K, V], makeValue func() (V, error)) (V, error) {
	e.err = errPanicked
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(e.made)
		if c.entries[e.key] != e {
			return // removed meanwhile
		}
		if e.err == nil {
			e.weight = c.weigh(e.value)
		}
		if e.err != nil || e.weight > c.most {
			delete(c.entries, e.key)
			return
		}
		e.place = c.used.PushFront(e)
		c.weight += e.weight
		for c.weight > c.most {
			c.drop(c.used.Back().Value.(*entry[K, V]))
		}
	}()
	e.value, e.err = makeValue()
	return e.value, e.err
}

// Remove drops what is kept for key. What is being made for it is not kept.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
}

func (c *Cache[K, V]) drop(e *entry[K, V]) {
	delete(c.entries, e.key)
	if e.place != nil {
		c.used.Remove(e.place)
		c.weight -= e.weight
	}
}

// Size is how many values are kept, and what they weigh.
func (c *Cache[K, V]) Size() (count int, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len(), c.weight
}

// errPanicked is what who waited finds when making a value ended in a panic: he tries himself.
var errPanicked = errors.New("making the value panicked")
