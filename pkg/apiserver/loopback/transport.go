package loopback

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
)

// remoteAddr is where requests seem to come from, for audit and logs. No connection comes from
// port 0.
const remoteAddr = "127.0.0.1:0"

// Is says that a request did not come over the network. It says nothing of who asks.
func Is(req *http.Request) bool { return req.RemoteAddr == remoteAddr }

// Transport is an http.RoundTripper that calls a handler in this process.
type Transport struct {
	handler atomic.Pointer[http.Handler]
}

// NewTransport returns a transport whose requests fail, as if nobody listened,
// until Serve is called.
func NewTransport() *Transport { return &Transport{} }

// Serve has h answer all further requests.
func (t *Transport) Serve(h http.Handler) { t.handler.Store(&h) }

// Config returns a copy of config, with the same credentials, whose clients use
// the transport.
func (t *Transport) Config(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.TLSClientConfig = rest.TLSClientConfig{}
	c.Transport = t
	return c
}

// BuiltIn returns a copy of config for typed clients of built-in kinds: those have
// an encoding that costs less than JSON.
func BuiltIn(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body := req.Body
	if body == nil {
		body = http.NoBody
	}
	h := t.handler.Load()
	if h == nil {
		_ = body.Close()
		return nil, fmt.Errorf("the server is not there yet: %w", syscall.ECONNREFUSED)
	}
	// Whoever is served while he asks computes nothing meanwhile: what he asks for may need what he has.
	defer fairness.Wait(req.Context())()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // like a connection, which carries no values
	r := newResponse(cancel)
	unlink := context.AfterFunc(req.Context(), func() { r.abandon(context.Cause(req.Context())) })
	go func() {
		defer unlink()
		defer cancel()
		defer body.Close()
		r.finish(serve(*h, r, received(ctx, req, body)))
	}()
	select {
	case <-r.begun:
		return r.response(req)
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// received is req as a server sees it.
func received(ctx context.Context, req *http.Request, body io.ReadCloser) *http.Request {
	u := *req.URL
	host := req.Host
	if host == "" {
		host = u.Host
	}
	u.Scheme, u.Host = "", ""
	header := req.Header.Clone() // filters drop the credentials
	if header == nil {
		header = http.Header{}
	}
	return (&http.Request{
		Method: req.Method, URL: &u, RequestURI: u.RequestURI(),
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header, Body: body, ContentLength: req.ContentLength,
		Host: host, RemoteAddr: remoteAddr,
	}).WithContext(ctx)
}

// serve calls h and returns why the response is not whole.
func serve(h http.Handler, w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			err = io.ErrUnexpectedEOF
		default:
			err = io.ErrUnexpectedEOF
			klog.ErrorS(nil, "A handler panicked", "method", req.Method, "path", req.URL.Path, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	h.ServeHTTP(w, req)
	return nil
}
