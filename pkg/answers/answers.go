package answers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxHeader is how many bytes of the header of an answer are read, of each that comes before it,
// too: Go reads 10 MiB of each, and no budget counts them.
const maxHeader = 256 << 10

// Bounds say how much is read.
type Bounds struct {
	// Most is the length of the longest answer in bytes, to which PerSent is added for
	// each byte of the request.
	Most, PerSent int64
	// Together is how many bytes of all answers to one owner are held at a time, not
	// counting the first Free of each.
	Together, Free int64
	// Watches says that what asks for a watch is one, and is not bounded: only where we
	// choose the URL.
	Watches bool
	// Owner says on whose account an answer is read; default: on that of the host.
	Owner func(*http.Request) string
}

// ErrTooLarge says that an answer was not read to its end.
var ErrTooLarge = errors.New("the answer is too large")

// ErrTooMany says that there were too many large answers at a time.
var ErrTooMany = errors.New("too many large answers are read at the moment")

// Reader reads answers.
type Reader struct {
	bounds Bounds

	mu   sync.Mutex
	held map[string]int64 // by owner
}

// NewReader makes a reader; all transports of it share one budget for each owner.
func NewReader(b Bounds) *Reader {
	if b.Owner == nil {
		b.Owner = func(req *http.Request) string { return req.URL.Host }
	}
	return &Reader{bounds: b, held: map[string]int64{}}
}

// With is next, with bounds, that of headers among them: next is called by nobody before.
func (r *Reader) With(next http.RoundTripper) http.RoundTripper {
	return transport{r, withBoundedHeader(next)}
}

// withBoundedHeader has the http.Transport below next read no more than maxHeader, whatever is
// around it. One that has a bound keeps it; that of everybody is left as it is.
func withBoundedHeader(next http.RoundTripper) http.RoundTripper {
	if next == nil || next == http.DefaultTransport {
		if t, ok := http.DefaultTransport.(*http.Transport); ok {
			next = t.Clone()
		}
	}
	for below := next; below != nil; {
		if t, ok := below.(*http.Transport); ok {
			if t.MaxResponseHeaderBytes == 0 {
				t.MaxResponseHeaderBytes = maxHeader
			}
			break
		}
		around, ok := below.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			break
		}
		below = around.WrappedRoundTripper()
	}
	return next
}

type transport struct {
	reader *Reader
	next   http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s redirects elsewhere, which is not followed", req.URL.Host)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols || t.reader.bounds.Watches && isWatch(req) {
		return resp, nil
	}
	most := t.reader.bounds.Most + t.reader.bounds.PerSent*max(0, req.ContentLength)
	if resp.ContentLength > most {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrTooLarge, resp.ContentLength, most)
	}
	resp.Body = &body{ReadCloser: resp.Body, reader: t.reader, owner: t.reader.bounds.Owner(req), most: most}
	return resp, nil
}

func isWatch(req *http.Request) bool {
	values, ok := req.URL.Query()["watch"]
	return ok && len(values) > 0 && (values[0] == "true" || values[0] == "1")
}

// take holds n bytes for an owner, if there is room.
func (r *Reader) take(owner string, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[owner]+n > r.bounds.Together {
		return false
	}
	r.held[owner] += n
	return true
}

func (r *Reader) give(owner string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[owner] -= n; r.held[owner] <= 0 {
		delete(r.held, owner)
	}
}

// body is an answer that is read.
type body struct {
	io.ReadCloser
	reader *Reader
	owner  string
	most   int64

	mu         sync.Mutex
	read, held int64
	closed     bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	if b.read > b.most {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.most)
	}
	if more := b.read - b.reader.bounds.Free - b.held; more > 0 && !b.closed {
		if !b.reader.take(b.owner, more) {
			return 0, ErrTooMany
		}
		b.held += more
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.held > 0 {
		b.reader.give(b.owner, b.held)
	}
	b.closed = true
	return err
}
