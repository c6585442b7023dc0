package accounttokens

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/klog/v2"
)

const (
	// readTimeout is for one read of a namespace.
	readTimeout = 30 * time.Second
	// remembered is for how long a token that a read found is permitted without another one. A
	// physical cluster on which nothing mounts it any more could have had it that much earlier.
	remembered = 10 * time.Second
)

// place is a namespace on a physical cluster.
type place struct {
	cluster           logicalcluster.Name
	namespace, target string
}

// reads has those who ask at the same time share what is read: a namespace may have thousands of objects that mount a
// token each, whose renewals come together.
//
//	the last read, of at most 10 s ago  then
//	found the token                     it is permitted
//	did not, or there was none          what a read says that begins after the request; all that
//	                                    come while another one goes on share the next
type reads struct {
	read func(context.Context, place) (mounted, error)

	mu    sync.Mutex
	known map[place]*known
}

// known is what is known of a place.
type known struct {
	// next is the read that those wait for who come now; nil if nobody does.
	next *read
	// reading says that one goes on.
	reading bool
	last    mounted
	at      time.Time
}

// read is one that was begun, or will be.
type read struct {
	done  chan struct{}
	found mounted
	err   error
}

// permitted says whether permits holds of what is mounted in a place.
func (r *reads) permitted(ctx context.Context, p place, permits func(mounted) bool) (bool, error) {
	next := r.join(p, permits)
	if next == nil {
		return true, nil
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-next.done:
		return next.err == nil && permits(next.found), next.err
	}
}

// join is the read to wait for; nil if what is remembered permits it.
func (r *reads) join(p place, permits func(mounted) bool) *read {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known[p]
	switch {
	case k == nil:
		k = &known{}
		r.known[p] = k
	case time.Since(k.at) < remembered && permits(k.last):
		return nil
	}
	if k.next == nil {
		k.next = &read{done: make(chan struct{})}
	}
	if !k.reading {
		k.reading = true
		go r.work(p, k)
	}
	return k.next
}

// work reads as long as somebody waits.
func (r *reads) work(p place, k *known) {
	for {
		r.mu.Lock()
		next := k.next
		if k.next = nil; next == nil {
			k.reading = false
			time.AfterFunc(remembered, func() { r.forget(p, k) })
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		if next.found, next.err = r.once(p); next.err == nil {
			r.mu.Lock()
			k.last, k.at = next.found, time.Now()
			r.mu.Unlock()
		}
		close(next.done)
	}
}

// once is one read. It is no request's own: what it cannot digest must not take the server down.
func (r *reads) once(p place) (found mounted, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v\n%s", v, debug.Stack()), "Reading what pods mount failed", "cluster", p.cluster, "namespace", p.namespace)
			err = errors.New("what pods mount could not be read")
		}
	}()
	return r.read(ctx, p)
}

// forget drops what is known of a place, unless it was read again.
func (r *reads) forget(p place, k *known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !k.reading && time.Since(k.at) >= remembered && r.known[p] == k {
		delete(r.known, p)
	}
}
