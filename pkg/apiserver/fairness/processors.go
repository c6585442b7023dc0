package fairness

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/processors"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// costlyBody, costlyAnswer and costlyURI are the bytes beyond which a request is expensive: its
	// body is decoded, validated and written, what is read for it is decoded and encoded, its
	// selectors are parsed.
	costlyBody   = 64 << 10
	costlyAnswer = 256 << 10
	costlyURI    = 2 << 10
	// resumeTimeout is how long a request waits to compute again after it waited for something
	// else. It may have begun what others wait for, who have the processors: then it goes on.
	resumeTimeout = time.Second
)

// newProcessors are those that do what is expensive: half of them, of which one logical cluster
// has a share. Cheap requests have the others for themselves.
func newProcessors() *weighed.Room {
	all := int64(processors.Count())
	return weighed.NewRoom(max(1, all/2), max(1, all/4))
}

// processor is that of a request which is expensive.
type processor struct {
	room    *weighed.Room
	cluster logicalcluster.Name
	// The request needs a processor if it is expensive, and while expressions are evaluated for
	// it, so many times; release is not nil while it has one, of which it needs none while it waits
	// for somebody else, so many times, and when it is over.
	expensive bool
	evaluates int
	over      bool
	release   func()
	waits     int
	read      int // bytes, from the database
}

func (p *processor) needed() bool {
	return (p.expensive || p.evaluates > 0) && p.waits == 0 && !p.over
}

// Expensive waits for one of the processors that do what is expensive, for the rest of the
// request of ctx. Requests that need no slot need none of them either. An error is that of an API
// server, and says that there was none in time.
func Expensive(ctx context.Context) error {
	t, ok := ctx.Value(slotKey{}).(*slot)
	if !ok {
		return nil
	}
	t.mu.Lock()
	p := &t.processor
	if t.who == "" || p.expensive || p.waits > 0 {
		t.mu.Unlock()
		return nil
	}
	p.expensive = true
	t.mu.Unlock()
	return t.compute(ctx)
}

// Compute waits for one of the same processors to evaluate expressions of tenants, whoever's
// request meets them; the result ends that, and so does the end of the request. While the request
// waits for somebody else it has none. Who needs no slot waits for it no longer than resumeTimeout
// and goes on without: who serves all logical clusters is held up by none of them.
func Compute(ctx context.Context) (done func(), err error) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	c, scoped := scope.ClusterFrom(ctx)
	if !ok || !scoped {
		return func() {}, nil
	}
	t.mu.Lock()
	exempt := t.who == ""
	if exempt {
		t.processor.cluster = c
	}
	t.processor.evaluates++
	t.mu.Unlock()
	done = sync.OnceFunc(t.evaluated)
	if exempt {
		within, cancel := context.WithTimeout(ctx, resumeTimeout)
		defer cancel()
		_ = t.compute(within)
		return done, nil
	}
	if err := t.compute(ctx); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

func (t *slot) evaluated() {
	t.mu.Lock()
	p := &t.processor
	var release func()
	if p.evaluates--; p.evaluates <= 0 && !p.expensive {
		release, p.release = p.release, nil
	}
	t.mu.Unlock()
	if release != nil {
		release()
	}
}

// compute takes a processor if the request needs one now.
func (t *slot) compute(ctx context.Context) error {
	t.mu.Lock()
	p := &t.processor
	needs, c := p.needed() && p.release == nil, p.cluster
	t.mu.Unlock()
	if !needs {
		return nil
	}
	release, err := p.room.Take(ctx, c, 1)
	if err != nil {
		return busy(c, "it is a large one, or expressions are evaluated for it", err)
	}
	t.mu.Lock()
	if !p.needed() || p.release != nil {
		t.mu.Unlock()
		release()
		return nil
	}
	p.release = release
	t.mu.Unlock()
	return nil
}

func busy(c logicalcluster.Name, why string, err error) *apierrors.StatusError {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the request to logical cluster %q waited for a processor, as %s: %v: try again in some seconds", c, why, err), 5)
}

// Read makes the request of ctx expensive if so many bytes are read for it, or were with those
// before.
func Read(ctx context.Context, bytes int) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	if !ok {
		return
	}
	t.mu.Lock()
	t.processor.read += bytes
	costly := t.processor.read > costlyAnswer
	t.mu.Unlock()
	if costly {
		_ = Expensive(ctx) // late is better than not at all
	}
}

// Evaluate waits for one of the same processors to evaluate expressions of tenants, whoever asks,
// if the request of ctx has none yet. The result gives it back.
func Evaluate(ctx context.Context) (done func(), err error) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	c, scoped := scope.ClusterFrom(ctx)
	if !ok || !scoped {
		return func() {}, nil
	}
	t.mu.Lock()
	has := t.processor.release != nil
	t.mu.Unlock()
	if has {
		return func() {}, nil
	}
	release, err := t.processor.room.Take(ctx, c, 1)
	if err != nil {
		return nil, busy(c, "policies evaluate expressions for it", err)
	}
	return release, nil
}

// Wait gives up the processor of an expensive request while it waits for something that is not
// computed for it: the disk, the reader of the answer, another request that it makes to this server. The
// result waits for one again; if there is none in resumeTimeout, the request goes on without.
func Wait(ctx context.Context) (back func()) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	if !ok {
		return func() {}
	}
	t.wait()
	return func() { t.resume(ctx) }
}

func (t *slot) wait() {
	t.budget.pause()
	t.mu.Lock()
	t.processor.waits++
	release := t.processor.release
	t.processor.release = nil
	t.mu.Unlock()
	if release != nil {
		release()
	}
}

func (t *slot) resume(ctx context.Context) {
	t.mu.Lock()
	t.processor.waits--
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	_ = t.compute(ctx)
	t.budget.resume()
}

func (t *slot) isExpensive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.processor.expensive
}

// free ends the need for a processor, with the request.
func (t *slot) free() {
	t.mu.Lock()
	t.processor.over = true
	release := t.processor.release
	t.processor.release = nil
	t.mu.Unlock()
	if release != nil {
		release()
	}
}

// answer is that of a request, which becomes expensive when it is a long one: when it is so long
// already, or begins to be compressed, which only long ones are. Nobody computes while its reader
// takes his time, and of an expensive one nothing more when he has left. A watch is as long as it lasts.
type answer struct {
	http.ResponseWriter
	ctx     context.Context //nolint:containedctx // that of the request
	slot    *slot
	written int64
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if code >= http.StatusOK {
		a.slot.code.Store(int32(code)) //nolint:gosec // it has three digits
		a.slot.answers()
		if a.slot.ofResource && a.Header().Get("Content-Encoding") == "gzip" {
			_ = Expensive(a.ctx) // its slot bounds what it takes if there is none in time
		}
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if err := a.ctx.Err(); err != nil && a.slot.isExpensive() {
		return 0, fmt.Errorf("nobody waits for the answer: %w", err)
	}
	if a.written == 0 {
		a.slot.answers() // without WriteHeader
	}
	a.slot.wait()
	n, err := a.ResponseWriter.Write(p)
	a.slot.resume(a.ctx)
	if a.written += int64(n); a.written > costlyAnswer && !a.slot.watches {
		_ = Expensive(a.ctx) // it has begun: late is better than not at all
	}
	return n, err //nolint:wrapcheck // of the connection
}

// measured is a request, and where it is answered, of which the length is looked at. The request is
// the caller's own.
func measured(w http.ResponseWriter, req *http.Request, t *slot) (http.ResponseWriter, *http.Request) {
	t.control = http.NewResponseController(w)
	if req.ContentLength == 0 {
		req.Body = http.NoBody // HTTP/2 has one for each request, and its end may never come
	}
	if req.Body != nil && req.Body != http.NoBody {
		if req.ProtoMajor < 2 {
			req = req.WithContext(t.uncut(req.Context()))
		}
		t.body = &body{ReadCloser: req.Body, ctx: req.Context(), slot: t, length: req.ContentLength}
		req.Body = t.body
	}
	return responsewriter.WrapForHTTP1Or2(&answer{ResponseWriter: w, ctx: req.Context(), slot: t}), req
}
