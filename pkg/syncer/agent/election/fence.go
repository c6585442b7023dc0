package election

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// ErrNotHeld: the Lease is not held now. It may be again in a moment, and then what
// was to be written is tried again, from caches that have gone on.
var ErrNotHeld = errors.New("the Lease of the physical cluster is not held at the moment, so nothing is written")

// Fence lets writes through, to the control plane and to the physical cluster, while
// the Lease is held: until some time after the last renewal was sent. A write that is
// on its way by then is ended, before anybody else may hold the Lease.
//
// Reads go on without the Lease: that is how caches outlast its loss.
type Fence struct {
	mu sync.Mutex
	// until is when writes end: by the monotonic clock, which a suspended machine
	// stops, and by the wall clock, which does not stop.
	until, wall time.Time
	// term is done then.
	term context.Context
	end  context.CancelFunc
}

// Extend lets writes through until then.
func (f *Fence) Extend(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until, f.wall = until, until.Round(0)
	if f.term == nil || f.term.Err() != nil {
		f.term, f.end = context.WithCancel(context.Background())
	}
	time.AfterFunc(time.Until(until), f.expire)
}

// expire ends what is on its way if the time is over.
func (f *Fence) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.term != nil && !f.held(time.Now()) {
		f.end()
	}
}

// Close lets nothing through any more.
func (f *Fence) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until, f.wall = time.Time{}, time.Time{}
	if f.term != nil {
		f.end()
	}
}

// enter begins a write: its context ends with the Lease. leave must be called when
// the write has ended.
func (f *Fence) enter(ctx context.Context) (writing context.Context, leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.term == nil || f.term.Err() != nil || !f.held(time.Now()) {
		return nil, nil, ErrNotHeld
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.term, func() { cancel(ErrNotHeld) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

// held says that the time is not over, by both clocks.
func (f *Fence) held(now time.Time) bool { return now.Before(f.until) && now.Round(0).Before(f.wall) }

// Guard is a transport whose writes go through the fence.
func (f *Fence) Guard(next http.RoundTripper) http.RoundTripper { return fenced{fence: f, next: next} }

// fenced is a transport whose writes go through a fence.
type fenced struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t fenced) RoundTrip(req *http.Request) (*http.Response, error) {
	if !connection.IsWrite(req) {
		return t.next.RoundTrip(req)
	}
	ctx, leave, err := t.fence.enter(req.Context())
	if err != nil {
		connection.CloseBody(req)
		return nil, err
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrNotHeld) {
			err = cause
		}
		leave()
		return nil, err
	}
	resp.Body = &leaving{ReadCloser: resp.Body, leave: leave}
	return resp, nil
}

// leaving is the body of a response to a write.
type leaving struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close()
}
