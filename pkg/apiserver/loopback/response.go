package loopback

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

const (
	// showAt is how much a handler may write before the client sees it without
	// a flush.
	showAt = 64 << 10
	// holdAt is how much the client may leave unread before writes wait.
	holdAt = 1 << 20
	// keepAt is the largest buffer that an idle stream keeps.
	keepAt = 16 << 10
)

var errBodyClosed = errors.New("the response body was closed")

// response is a response on its way: the http.ResponseWriter of the handler, and
// the body that the client reads.
type response struct {
	cancel context.CancelFunc
	// begun is closed when status and header are known to the client.
	begun chan struct{}
	// pending is the header while the handler still changes it; only the handler uses it.
	pending http.Header

	mu sync.Mutex
	// changed is signalled for the one reader and the one writer.
	changed sync.Cond
	status  int
	header  http.Header
	started bool // begun is closed
	// buf[read:shown] can be read; the rest is not flushed yet.
	buf         []byte
	read, shown int
	// ended says that the handler returned, err that the response is not whole.
	ended bool
	err   error
	// gone is why the client does not read any more.
	gone error
}

func newResponse(cancel context.CancelFunc) *response {
	r := &response{cancel: cancel, begun: make(chan struct{}), pending: http.Header{}}
	r.changed.L = &r.mu
	return r
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.pending }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *response) writeHeader(status int) {
	if r.status != 0 || status < http.StatusOK { // informational responses are not passed on
		return
	}
	r.status, r.header = status, r.pending.Clone()
	// Those are about a connection, of which there is none.
	r.header.Del("Connection")
	r.header.Del("Transfer-Encoding")
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(http.StatusOK)
	for r.gone == nil && len(r.buf)-r.read >= holdAt {
		r.show()
		r.changed.Wait()
	}
	if r.gone != nil {
		return 0, r.gone
	}
	r.buf = append(r.buf, p...)
	if len(r.buf)-r.shown >= showAt {
		r.show()
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (r *response) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(http.StatusOK)
	r.show()
}

// CloseNotify implements http.CloseNotifier, without which filters take the
// writer for one that cannot flush. Handlers use the context.
func (r *response) CloseNotify() <-chan bool { return nil }

// show lets the client see what was written.
func (r *response) show() {
	r.shown = len(r.buf)
	if !r.started {
		r.started = true
		close(r.begun)
	}
	r.changed.Broadcast()
}

// finish is called when the handler has returned; err says that it did not do so
// properly.
func (r *response) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.writeHeader(http.StatusOK)
	}
	r.ended, r.err = true, err
	r.show()
}

// response is what the client gets once it has begun.
func (r *response) response(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil && len(r.buf) == 0 {
		return nil, r.err
	}
	length := int64(-1)
	if r.ended && r.err == nil {
		length = int64(len(r.buf))
	}
	return &http.Response{
		Status: strconv.Itoa(r.status) + " " + http.StatusText(r.status), StatusCode: r.status,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: r.header, Body: body{r}, ContentLength: length, Request: req,
	}, nil
}

// abandon ends the response for both sides; the reader is told why.
func (r *response) abandon(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone == nil {
		r.gone = why
	}
	r.buf, r.read, r.shown = nil, 0, 0
	r.changed.Broadcast()
	r.cancel()
}

// body is what the client reads.
type body struct{ *response }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.gone == nil && b.read == b.shown && !b.ended {
		b.changed.Wait()
	}
	switch {
	case b.gone != nil:
		return 0, b.gone
	case b.read < b.shown:
		n := copy(p, b.buf[b.read:b.shown])
		b.read += n
		b.reuse()
		return n, nil
	case b.err != nil:
		return 0, b.err
	}
	return 0, io.EOF
}

// reuse makes room after a read.
func (b body) reuse() {
	if b.ended {
		return
	}
	if b.read == len(b.buf) {
		b.read, b.shown = 0, 0
		if b.buf = b.buf[:0]; cap(b.buf) > keepAt {
			b.buf = nil
		}
	} else if b.read >= holdAt/2 {
		b.buf = append(b.buf[:0], b.buf[b.read:]...)
		b.shown -= b.read
		b.read = 0
	}
	b.changed.Broadcast()
}

// Close implements io.Closer.
func (b body) Close() error {
	b.abandon(errBodyClosed)
	return nil
}
