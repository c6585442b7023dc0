package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// errStalled: the server took the request and has said nothing for too long. It may be
// another one behind the same address that does, so the request is not tried again here.
var errStalled = errors.New("the server does not go on with its answer")

// answerTimeouts are for how long an answer is waited for. A connection that lives proves nothing: a
// proxy keeps it up before a server that will never answer, and who waits for that answer
// would wait for ever, also once others are answered again.
//
//	of an answer        is waited for                         of a watch
//	its header          stall                                 stall
//	each part of its    stall                                 as long as the watch asked for
//	body                                                      (timeoutSeconds), and stall
//	Retry-After         retryAfter at most: what is asked     the same
//	                    for then is refused again, or not;
//	                    not at all by who has not so long
type answerTimeouts struct {
	stall, retryAfter time.Duration
}

// defaultTimeouts: API servers end requests after a minute by themselves.
var defaultTimeouts = answerTimeouts{stall: 70 * time.Second, retryAfter: 5 * time.Second}

// with is a transport that has them.
func (a answerTimeouts) with(next http.RoundTripper) http.RoundTripper { return timed{a, next} }

type timed struct {
	answerTimeouts
	next http.RoundTripper
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t timed) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &waited{ctx: ctx, cancel: cancel, stall: t.stall, timer: time.AfterFunc(t.stall, func() { cancel(errStalled) })}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		w.end()
		return nil, w.explain(err)
	}
	t.shorten(ctx, resp.Header)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols: // a stream of whoever asked for it
		w.timer.Stop()
		return resp, nil
	case isWatch(req.URL):
		w.watches(req.URL)
	default:
		w.timer.Reset(t.stall)
	}
	w.ReadCloser = resp.Body
	resp.Body = w
	return resp, nil
}

// shorten bounds for how long a server has clients wait: they do within the request, and
// nothing that comes later wakes them. Who would wait beyond the end of ctx gets the answer, which
// says more than that the time is over.
func (t timed) shorten(ctx context.Context, h http.Header) {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil {
		return
	}
	wait := time.Duration(min(seconds, int(t.retryAfter.Seconds()))) * time.Second
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		h.Del("Retry-After")
		return
	}
	h.Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
}

// waited is the body of an answer for which somebody waits.
type waited struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // that of the request, for as long as it is read
	cancel context.CancelCauseFunc
	stall  time.Duration
	timer  *time.Timer
	// silent says that nothing has to come: it is a watch.
	silent bool
}

// watches waits for the end of a watch that was asked for.
func (w *waited) watches(u *url.URL) {
	w.silent = true
	seconds, err := strconv.Atoi(u.Query().Get("timeoutSeconds"))
	if err != nil {
		w.timer.Stop() // it asked for no end
		return
	}
	w.timer.Reset(time.Duration(seconds)*time.Second + w.stall)
}

// Read implements io.Reader.
func (w *waited) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil {
		return n, w.explain(err)
	}
	if !w.silent && n > 0 {
		w.timer.Reset(w.stall)
	}
	return n, nil
}

// Close implements io.Closer.
func (w *waited) Close() error {
	defer w.end()
	return w.ReadCloser.Close()
}

func (w *waited) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain says of the end of a request that was given up why it was.
func (w *waited) explain(err error) error {
	if cause := context.Cause(w.ctx); errors.Is(cause, errStalled) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w, for %s", errStalled, w.stall)
	}
	return err
}

func isWatch(u *url.URL) bool {
	watch := u.Query().Get("watch")
	return watch == "true" || watch == "1"
}
