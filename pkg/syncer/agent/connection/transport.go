package connection

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// connection is what is known of a connection to the physical cluster: who answered
// on it. It is the local address of the connection, so that whatever is wrapped
// around that one shows it.
type connection struct {
	net.Addr
	uid atomic.Pointer[types.UID]
}

func (c *connection) who() types.UID {
	if uid := c.uid.Load(); uid != nil {
		return *uid
	}
	return ""
}

// dialed is a connection that knows who answered on it.
type dialed struct {
	net.Conn
	connection *connection
}

// LocalAddr implements net.Conn.
func (d dialed) LocalAddr() net.Addr { return d.connection }

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// identified returns a dialer whose connections can be recognized; new is called for
// each, and failed if there is none.
func identified(dial dialer, new, failed func()) dialer {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			if ctx.Err() == nil {
				failed()
			}
			return nil, err
		}
		new()
		return dialed{Conn: conn, connection: &connection{Addr: conn.LocalAddr()}}, nil
	}
}

// errUnidentified: a request met a connection on which nobody has said who it is.
var errUnidentified = errors.New("the connection to the physical cluster has not been identified")

// identifyTries bounds how often a request looks for a connection that is known. A
// second one is rare: requests share one as long as the server lets them.
const identifyTries = 5

// gated is a transport that talks to the physical cluster that is meant, and to no
// other.
//
// Who answers is asked on each connection (gate.identify), and holds for that one
// only: a name may lead elsewhere with each connection, and so may a load balancer.
// What a write says is its body, which is not sent before the connection that was
// chosen for it is known; a read is believed if it came over one.
type gated struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t gated) RoundTrip(req *http.Request) (*http.Response, error) {
	defer CloseBody(req)
	if IsWrite(req) && (req.Body == nil || req.Body == http.NoBody || req.GetBody == nil) {
		return nil, errors.New("a write to a physical cluster needs a body, which can wait for the connection")
	}
	for range identifyTries {
		if err := t.gate.ready(req.Context()); err != nil {
			return nil, err
		}
		a, err := t.attempt(req)
		if err != nil {
			return nil, err
		}
		resp, err := t.next.RoundTrip(a.request)
		if !a.blocked.Load() && (err != nil || t.gate.passes(a.connection.Load())) {
			return resp, err
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		if err := t.gate.identify(req.Context(), func() bool { return t.gate.passes(a.connection.Load()) }); err != nil {
			return nil, err
		}
	}
	return nil, errUnidentified
}

// attempt is a request that learns which connection it goes over.
type attempt struct {
	request    *http.Request
	connection atomic.Pointer[connection]
	// blocked says that the body was held back.
	blocked atomic.Bool
}

func (t gated) attempt(req *http.Request) (*attempt, error) {
	a := &attempt{}
	a.connection.Store(&t.gate.unknown) // of a transport without connections
	a.request = req.Clone(httptrace.WithClientTrace(req.Context(), t.gate.trace(&a.connection)))
	if !IsWrite(req) {
		return a, nil
	}
	a.request.GetBody = func() (io.ReadCloser, error) {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		return &heldBody{ReadCloser: body, pass: func() bool {
			passes := t.gate.passes(a.connection.Load())
			if !passes {
				a.blocked.Store(true)
			}
			return passes
		}}, nil
	}
	var err error
	a.request.Body, err = a.request.GetBody()
	return a, err
}

// heldBody is not sent over a connection that is not known.
type heldBody struct {
	io.ReadCloser
	pass func() bool
}

// Read implements io.Reader.
func (b *heldBody) Read(p []byte) (int, error) {
	if !b.pass() {
		return 0, errUnidentified
	}
	return b.ReadCloser.Read(p)
}

// IsWrite says that a request changes something.
func IsWrite(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// CloseBody ends the body of a request that is not sent, as a transport must.
func CloseBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
