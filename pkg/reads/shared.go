package reads

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Shared reads a value of each key, for all that ask. One read goes on at a time, and all that come meanwhile share the
// next. A value is shared, too: nobody may change it.
type Shared[K comparable, V any] struct {
	read                func(context.Context, K) (V, error)
	timeout, remembered time.Duration

	mu    sync.Mutex
	known map[K]*known[V]
}

// known is what is known of a key.
type known[V any] struct {
	// next is the read that those wait for who come now; nil if nobody does.
	next *pending[V]
	// reading says that one goes on.
	reading bool
	// last was read successfully at a time.
	last V
	at   time.Time
}

// pending is a read that was begun, or will be.
type pending[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// New makes a Shared whose reads may take timeout, and are remembered for a time. A read has a context of its own: it is
// nobody's who asks.
func New[K comparable, V any](timeout, remembered time.Duration, read func(context.Context, K) (V, error)) *Shared[K, V] {
	return &Shared[K, V]{read: read, timeout: timeout, remembered: remembered, known: map[K]*known[V]{}}
}

// Last is what was read last of a key, if that is remembered.
func (s *Shared[K, V]) Last(key K) (_ V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[key]; k != nil && !k.at.IsZero() && time.Since(k.at) < s.remembered {
		return k.last, true
	}
	var none V
	return none, false
}

// Get reads the value of a key from now on. Its error is that of the read, or of ctx.
func (s *Shared[K, V]) Get(ctx context.Context, key K) (V, error) {
	next := s.join(key)
	select {
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	case <-next.done:
		return next.value, next.err
	}
}

// join is the next read that begins.
func (s *Shared[K, V]) join(key K) *pending[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[key]
	if k == nil {
		k = &known[V]{}
		s.known[key] = k
	}
	if k.next == nil {
		k.next = &pending[V]{done: make(chan struct{})}
	}
	if !k.reading {
		k.reading = true
		go s.work(key, k)
	}
	return k.next
}

// work reads as long as somebody waits.
func (s *Shared[K, V]) work(key K, k *known[V]) {
	for {
		s.mu.Lock()
		next := k.next
		if k.next = nil; next == nil {
			k.reading = false
			time.AfterFunc(s.remembered, func() { s.forget(key, k) })
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if next.value, next.err = s.once(key); next.err == nil {
			s.mu.Lock()
			k.last, k.at = next.value, time.Now()
			s.mu.Unlock()
		}
		close(next.done)
	}
}

// once is one read. As it is no request's own, what it cannot digest would take the server down.
func (s *Shared[K, V]) once(key K) (value V, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout) //nolint:forbidigo // the values of who happens to be first are not those of all
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("reading %v failed", key)
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v\n%s", v, debug.Stack()), "A shared read failed", "key", fmt.Sprint(key))
		}
	}()
	return s.read(ctx, key)
}

// forget drops what is known of a key, unless it was read again.
func (s *Shared[K, V]) forget(key K, k *known[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !k.reading && time.Since(k.at) >= s.remembered && s.known[key] == k {
		delete(s.known, key)
	}
}
