package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-dev/atoll/pkg/skew"
)

const (
	// maxTunnels is how many a target has at a time: syncers that take over from each
	// other, and what they have not noticed to be lost.
	maxTunnels = 8
	// helloTimeout is how long an agent takes to say that it serves.
	helloTimeout = 10 * time.Second
	// streamTimeout is how long a stream takes to begin.
	streamTimeout = 5 * time.Second
)

var (
	// ErrNone: no agent of the target has a tunnel here.
	ErrNone = errors.New("there is no tunnel")
	// ErrFull: all streams of the tunnels of the target are open.
	ErrFull = errors.New("the tunnel has no stream left")
)

// Pool has the tunnels of this server, by target.
type Pool struct {
	mu      sync.Mutex
	closed  bool
	tunnels map[string][]*tunnel // the newest last
	// ended is when the last tunnel of a target ended that has none now.
	ended map[string]time.Time
}

// NewPool has none.
func NewPool() *Pool { return &Pool{tunnels: map[string][]*tunnel{}, ended: map[string]time.Time{}} }

// tunnel is one, as the server sees it.
type tunnel struct {
	conn      net.Conn
	transport *http.Transport
	expiry    *time.Timer
	// free has a place for each stream that is open: a transport whose connection is full
	// would look for another one and forget this.
	free chan struct{}
}

// Accept makes a tunnel of target of the connection of a request that who may has sent.
// It ends when the certificate does.
func (p *Pool) Accept(w http.ResponseWriter, req *http.Request, target string) {
	if !httpstream.IsUpgradeRequest(req) || req.Header.Get("Upgrade") != protocol {
		http.Error(w, "Upgrade request required", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	full, closed := len(p.tunnels[target]) >= maxTunnels, p.closed
	p.mu.Unlock()
	if full || closed {
		http.Error(w, fmt.Sprintf("no tunnel: the server ends (%t), or has %d of this physical cluster already (%t)", closed, maxTunnels, full), http.StatusServiceUnavailable)
		return
	}
	conn, ok := takeOver(w, protocol)
	if !ok {
		return
	}
	var end time.Time
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		end = req.TLS.PeerCertificates[0].NotAfter
	}
	p.add(context.WithoutCancel(req.Context()), target, conn, end)
}

// takeOver changes the protocol of a request, and returns its connection. Where it cannot, the
// client has been answered, or its connection has ended.
func takeOver(w http.ResponseWriter, to string) (net.Conn, bool) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "the connection cannot be taken over", http.StatusInternalServerError)
		return nil, false
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return nil, false
	}
	_ = conn.SetDeadline(time.Time{}) // those of the request
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + to + "\r\n"
	if version := w.Header().Get(skew.ServerHeader); version != "" {
		answer += skew.ServerHeader + ": " + version + "\r\n"
	}
	_, err = io.WriteString(conn, answer+"\r\n")
	if err != nil || buffered.Reader.Buffered() > 0 { // who asks waits for the answer
		_ = conn.Close()
		return nil, false
	}
	return conn, true
}

// add waits for the agent to serve.
func (p *Pool) add(ctx context.Context, target string, conn net.Conn, end time.Time) {
	t := &tunnel{free: make(chan struct{}, maxStreams)}
	t.conn = wrap(conn, func() { p.remove(target, t) })
	var given atomic.Bool
	t.transport = &http.Transport{
		Protocols: onlyHTTP2(), HTTP2: h2(), DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if given.Swap(true) {
				return nil, errEnded // there is one connection only
			}
			return t.conn, nil
		},
	}
	if !end.IsZero() {
		t.expiry = time.AfterFunc(time.Until(end), func() { _ = t.conn.Close() })
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+helloPath, nil)
	if err == nil {
		var resp *http.Response
		if resp, err = t.transport.RoundTrip(req); err == nil {
			err = resp.Body.Close()
		}
	}
	p.mu.Lock()
	ok := err == nil && !p.closed && len(p.tunnels[target]) < maxTunnels
	if ok {
		p.tunnels[target] = append(p.tunnels[target], t)
		delete(p.ended, target)
	}
	p.mu.Unlock()
	if !ok {
		_ = t.conn.Close()
	}
}

func (p *Pool) remove(target string, t *tunnel) {
	if t.expiry != nil {
		t.expiry.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	had := len(p.tunnels[target])
	p.tunnels[target] = slices.DeleteFunc(p.tunnels[target], func(o *tunnel) bool { return o == t })
	if len(p.tunnels[target]) == 0 {
		delete(p.tunnels, target)
		if had > 0 {
			p.ended[target] = time.Now()
		}
	}
}

// Ended is when the last tunnel of a target ended; zero if it has one, had none, or was
// closed by CloseTo.
func (p *Pool) Ended(target string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[target]
}

// Dial opens a stream to the agent of target: by the newest tunnel that has one left.
func (p *Pool) Dial(ctx context.Context, target string) (net.Conn, error) {
	p.mu.Lock()
	tunnels := slices.Clone(p.tunnels[target])
	p.mu.Unlock()
	err := ErrNone
	for _, t := range slices.Backward(tunnels) {
		var conn net.Conn
		if conn, err = t.open(ctx); err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, err
}

// open opens a stream. ctx is for the opening only.
func (t *tunnel) open(ctx context.Context) (net.Conn, error) {
	select {
	case t.free <- struct{}{}:
	default:
		return nil, ErrFull
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	cancel := sync.OnceFunc(func() { end(); <-t.free })
	stop := context.AfterFunc(ctx, end)
	late := time.AfterFunc(streamTimeout, end)
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(life, http.MethodPost, "http://agent"+streamPath, in)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	resp, err := t.transport.RoundTrip(req)
	if inTime := late.Stop(); !stop() || !inTime || err != nil || resp.StatusCode != http.StatusOK {
		cancel()
		_ = in.Close()
		if err == nil {
			_ = resp.Body.Close()
			err = fmt.Errorf("opening a stream: %w", errors.Join(ctx.Err(), context.DeadlineExceeded))
		}
		return nil, err
	}
	return wrap(opened{resp.Body, out}, cancel), nil
}

// opened is a stream at the server's end.
type opened struct {
	io.ReadCloser
	out *io.PipeWriter
}

// Write implements io.Writer.
func (o opened) Write(p []byte) (int, error) { return o.out.Write(p) }

// Close implements io.Closer.
func (o opened) Close() error {
	_ = o.out.Close() // never fails
	return o.ReadCloser.Close()
}

// Tunnels is how many there are of target.
func (p *Pool) Tunnels(target string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tunnels[target])
}

// CloseTo ends the tunnels of a target.
func (p *Pool) CloseTo(target string) {
	p.mu.Lock()
	tunnels := slices.Clone(p.tunnels[target])
	p.mu.Unlock()
	for _, t := range tunnels {
		_ = t.conn.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ended, target)
}

// Close ends all tunnels, and lets none begin.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	var tunnels []*tunnel
	for _, of := range p.tunnels {
		tunnels = append(tunnels, of...)
	}
	p.mu.Unlock()
	for _, t := range tunnels {
		_ = t.conn.Close()
	}
}
