package fairness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// maxAhead is how much of a body is read before its request takes anything: one byte more
	// than upstream takes, which then says so.
	maxAhead = 3<<20 + 1
	// chunk is in what parts a body is kept; each is let go when it was read.
	chunk = 32 << 10
	// unfinishedTimeout is how long what is left of a body may hold up the answer.
	unfinishedTimeout = time.Second
)

// arrive reads the body of the request of u before it takes anything. It returns a context in which
// the request may wait as long as it could have before, and false if the request is refused.
func (t *slot) arrive(ctx context.Context, u user.Info) (renewed context.Context, done func(), ok bool) {
	c, scoped := scope.ClusterFrom(ctx)
	if t.body == nil || !scoped || u == nil {
		return ctx, func() {}, true
	}
	from, counted := senderOf(auth.IsBound(ctx), t.borrowed, c, u)
	if !counted {
		return ctx, func() {}, true
	}
	t.entered()
	bodies := t.slots.bodies
	began := bodies.clock.Now()
	if refusal := t.readAhead(from); refusal != nil {
		t.mu.Lock()
		t.refusal = refusal
		t.mu.Unlock()
		return ctx, func() {}, false
	}
	took := bodies.clock.Since(began)
	deadline, bounded := ctx.Deadline()
	if !bounded || took < bodies.pressedGrace {
		return ctx, t.body.drop, true
	}
	renewed, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(took))
	stop := context.AfterFunc(t.body.ctx, cancel)
	return renewed, func() {
		stop()
		cancel()
		t.body.drop()
	}, true
}

// readAhead reads the body of the request. An error says that it was not read; what else ends it is
// found by who reads it.
func (t *slot) readAhead(from sender) *apierrors.StatusError {
	b, bodies := t.body, t.slots.bodies
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	a := &arrival{sender: from, began: bodies.clock.Now()}
	a.cut = func() {
		cancel()
		t.abort()
	}
	if refusal := bodies.enter(a); refusal != nil {
		t.abort()
		return refusal
	}
	slow := bodies.clock.AfterFunc(bodies.grace, func() { bodies.timeout(a) })
	defer slow.Stop()
	err := b.fill(func(n int) error {
		left := bodies.progress(a, n)
		if length := max(b.length, a.read); length > bodies.small && b.give == nil {
			slow.Stop()
			if b.length < 0 {
				length = maxAhead
			}
			give, err := bodies.take(ctx, a, min(length, maxAhead))
			if err != nil {
				return err
			}
			b.give, left = give, bodies.progress(a, 0)
		}
		slow.Reset(max(left, 0) + time.Millisecond)
		return nil
	})
	if cut := bodies.leave(a); cut != nil {
		b.drop()
		return cut
	}
	if errors.Is(err, weighed.ErrBusy) {
		b.drop()
		t.abort()
		return tooManyBodies("others have the memory that large ones take")
	}
	return nil
}

// abort ends reading what is left of the body, whoever reads it.
func (t *slot) abort() {
	t.connection.Lock()
	defer t.connection.Unlock()
	if t.aborted = true; t.control != nil { // else the answer was given
		_ = t.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// body is that of a request. A long one makes the request expensive when it is decoded. Whoever has
// a slot reads of it what was read ahead, nothing from the network.
type body struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // that of the request
	slot   *slot
	length int64 // as the request says; negative if it does not
	read   int64 // by who decodes it
	give   func()

	mu    sync.Mutex
	ahead bool     // it was read ahead
	parts [][]byte // what was, and nobody has read yet
	ended error    // how it ended; nil if it did not
	gone  bool     // what was read ahead was let go
}

// fill reads the body until it ends or maxAhead bytes are there. Before each part more is called with
// the length of the one before; an error of it ends that.
func (b *body) fill(more func(n int) error) error {
	var part []byte // the last of parts
	held, n := int64(0), 0
	for held < maxAhead {
		if err := more(n); err != nil {
			return err
		}
		if len(part) == cap(part) {
			size := min(chunk, maxAhead-held)
			if b.length >= held {
				size = min(size, b.length-held+1)
			}
			part = make([]byte, 0, size)
		}
		var err error
		n, err = b.ReadCloser.Read(part[len(part):cap(part)])
		held += int64(n)
		b.mu.Lock()
		if b.ahead = true; n > 0 && len(part) > 0 {
			b.parts = b.parts[:len(b.parts)-1]
		}
		if part = part[:len(part)+n]; n > 0 {
			b.parts = append(b.parts, part)
		}
		b.ended = err
		b.mu.Unlock()
		if err != nil {
			return nil
		}
	}
	return nil
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, from, err := b.next(p)
	switch {
	case !from && b.finished():
		return 0, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxAhead-1))
	case !from:
		n, err = b.ReadCloser.Read(p)
		b.mu.Lock()
		b.ended = err
		b.mu.Unlock()
	}
	if b.read += int64(n); errors.Is(err, io.EOF) && b.read > costlyBody {
		if busy := Expensive(b.ctx); busy != nil {
			return n, busy
		}
	}
	return n, err //nolint:wrapcheck // io.EOF is compared
}

// next reads what was read ahead, and lets it go; false if all of that was read, and the body goes on.
func (b *body) next(p []byte) (n int, from bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.parts) > 0 {
		n = copy(p, b.parts[0])
		if b.parts[0] = b.parts[0][n:]; len(b.parts[0]) == 0 {
			b.parts = b.parts[1:]
		}
		if len(b.parts) > 0 {
			return n, true, nil
		}
		if b.give != nil {
			b.give()
		}
		return n, true, b.ended
	}
	if b.gone {
		return 0, true, io.ErrUnexpectedEOF
	}
	return 0, b.ended != nil, b.ended
}

// drop lets go what was read ahead.
func (b *body) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.parts) > 0 {
		b.parts, b.gone = nil, true
	}
	if b.give != nil {
		b.give()
	}
}

// unfinished says that there may be more of the body.
func (b *body) unfinished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended == nil
}

// finished says that the body was read ahead, and its request is with nobody else, who would read on.
func (b *body) finished() bool {
	b.mu.Lock()
	ahead := b.ahead
	b.mu.Unlock()
	return ahead && !b.slot.elsewhere()
}

// elsewhere says that the request waits for somebody else.
func (t *slot) elsewhere() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.suspended > 0
}

// uncut is ctx, which HTTP/1 ends when reading is, but for the end that abort made: who was cut is answered.
func (t *slot) uncut(ctx context.Context) context.Context {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t.connection.Lock()
		defer t.connection.Unlock()
		if !t.aborted {
			cancel()
		}
	})
	t.left = func() {
		stop()
		cancel()
	}
	return out
}

// answers begins the answer. A body that goes on holds it up for a moment only: HTTP/1 reads on for some
// time before it answers.
func (t *slot) answers() {
	if t.body == nil || !t.body.unfinished() || t.elsewhere() {
		return
	}
	t.connection.Lock()
	defer t.connection.Unlock()
	if t.control != nil && t.unfinished == nil {
		t.unfinished = t.slots.bodies.clock.AfterFunc(unfinishedTimeout, t.abort)
	}
}

// answered ends what is done with the connection, which gets its own deadlines for the next request.
func (t *slot) answered() {
	t.connection.Lock()
	defer t.connection.Unlock()
	if t.control != nil && t.body != nil && !t.aborted && t.body.unfinished() {
		_ = t.control.SetReadDeadline(t.slots.bodies.clock.Now().Add(unfinishedTimeout))
	}
	if t.control = nil; t.unfinished != nil {
		t.unfinished.Stop()
	}
	if t.left != nil {
		t.left()
	}
}
