package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	// forwardProtocol is what is spoken in a port-forward.
	forwardProtocol = "portforward.k8s.io"
	// reasonTimeout bounds how long the reason of an end is waited for once it ended.
	reasonTimeout = time.Second
	// closeTimeout bounds how long it takes to say that the connection ends.
	closeTimeout = time.Second
)

// Forward connects to a port of the pod of c, whose other fields it sets. The port is dialled
// beside the pod: a Read of the connection fails if nobody listens. The error is a StatusError that is fit for a user.
func Forward(ctx context.Context, link Link, c Call, port int32) (net.Conn, error) {
	c.Subresource, c.Method, c.Query = "portforward", http.MethodPost, nil
	c.Upgrade = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {forwardProtocol}}
	resp, err := link.Do(ctx, c)
	if err != nil {
		return nil, err
	}
	below, ok := upgraded(resp)
	if !ok {
		return nil, c.Failure(resp)
	}
	f := &forwarded{call: c, port: port, below: below, reason: make(chan struct{})}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	opened := make(chan error, 1)
	go func() { opened <- f.open() }() // ends with the connection, or when the other side is late
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = f.Close()
		return nil, unreached(err)
	}
	f.mu.Lock()
	f.opened = true
	f.mu.Unlock()
	return f, nil
}

// forwarded is a connection to a port of a pod. A deadline ends it.
type forwarded struct {
	call  Call
	port  int32
	below io.ReadWriteCloser

	session      httpstream.Connection
	data, errors httpstream.Stream
	// reason is closed when message is what the other side said of the end.
	reason  chan struct{}
	message string

	mu     sync.Mutex
	opened bool
	// ended is why it ended here, if it did.
	ended  error
	expiry *time.Timer
}

var _ net.Conn = &forwarded{}

// open makes the two streams that a connection is.
func (f *forwarded) open() (err error) {
	if f.session, err = spdy.NewClientConnection(plain{f.below}); err != nil {
		return err
	}
	header := func(kind string) http.Header {
		return http.Header{
			corev1.StreamType: {kind}, corev1.PortHeader: {strconv.Itoa(int(f.port))}, corev1.PortForwardRequestIDHeader: {"0"},
		}
	}
	if f.errors, err = f.session.CreateStream(header(corev1.StreamTypeError)); err != nil {
		return err
	}
	if err := f.errors.Close(); err != nil { // nothing is said to it
		return err
	}
	go func() { // ends with the session
		defer close(f.reason)
		said, _ := io.ReadAll(io.LimitReader(f.errors, maxMessage))
		f.message = string(said)
	}()
	if f.data, err = f.session.CreateStream(header(corev1.StreamTypeData)); err != nil {
		if f.said() { // the other side was done before it was waited for
			return failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, f.refusal().Error())
		}
	}
	return err
}

// said waits a moment for what the other side says of the end, and reports whether it does.
func (f *forwarded) said() bool {
	late := time.NewTimer(reasonTimeout)
	defer late.Stop()
	select {
	case <-f.reason:
		return f.message != ""
	case <-late.C:
		return false
	}
}

// Read implements net.Conn. Where the other side ended the connection with a reason, that is
// the error, and where it ended here, net.ErrClosed or os.ErrDeadlineExceeded.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.data.Read(p)
	if err == nil {
		return n, nil
	}
	if ended := f.end(); ended != nil {
		return n, ended
	}
	if f.said() {
		return n, f.refusal()
	}
	return n, err
}

// refusal is what the other side said, as far as it concerns a user.
func (f *forwarded) refusal() error {
	why := f.call.translate(f.message)
	if strings.Contains(f.message, "connection refused") {
		why = "connection refused"
	}
	return fmt.Errorf("port %d of pod %s/%s: %s", f.port, f.call.Pod.LogicalNamespace, f.call.Pod.Name, why)
}

// Write implements net.Conn. Once it ended here it says so as Read does: the session that
// carries it ends a moment later, and takes what is written until then.
func (f *forwarded) Write(p []byte) (int, error) {
	if ended := f.end(); ended != nil {
		return 0, ended
	}
	return f.data.Write(p)
}

// Close implements net.Conn.
func (f *forwarded) Close() error { return f.close(net.ErrClosed) }

// close ends it for a reason. Only the first reason counts.
func (f *forwarded) close(why error) error {
	f.mu.Lock()
	ended, opened := f.ended != nil, f.opened
	if !ended {
		f.ended = why
	}
	if f.expiry != nil {
		f.expiry.Stop()
	}
	f.mu.Unlock()
	switch {
	case ended:
		return nil
	case !opened:
		return f.below.Close()
	}
	go func() { // ends in time: the other side may not read what comes
		defer time.AfterFunc(closeTimeout, func() { f.below.Close() }).Stop()
		defer f.below.Close()
		_ = f.session.Close()
	}()
	return nil
}

// end is why it ended here, and nil while it did not.
func (f *forwarded) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// SetDeadline implements net.Conn.
func (f *forwarded) SetDeadline(t time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.expiry != nil {
		f.expiry.Stop()
		f.expiry = nil
	}
	if !t.IsZero() && f.ended == nil {
		f.expiry = time.AfterFunc(time.Until(t), func() { _ = f.close(os.ErrDeadlineExceeded) })
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (f *forwarded) SetReadDeadline(t time.Time) error { return f.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (f *forwarded) SetWriteDeadline(t time.Time) error { return f.SetDeadline(t) }

// LocalAddr implements net.Conn.
func (f *forwarded) LocalAddr() net.Addr { return address("the control plane") }

// RemoteAddr implements net.Conn.
func (f *forwarded) RemoteAddr() net.Addr {
	return address(fmt.Sprintf("%s/%s:%d", f.call.Pod.LogicalNamespace, f.call.Pod.Name, f.port))
}

// address is one of a connection that is in another.
type address string

// Network implements net.Addr.
func (address) Network() string { return "pod" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// plain makes a connection for SPDY, which sets no deadlines as long as nobody asks it to.
type plain struct{ io.ReadWriteCloser }

var errNoDeadline = errors.New("the connection has no deadlines")

func (plain) LocalAddr() net.Addr              { return address("the control plane") }
func (plain) RemoteAddr() net.Addr             { return address("a physical cluster") }
func (plain) SetDeadline(time.Time) error      { return errNoDeadline }
func (plain) SetReadDeadline(time.Time) error  { return errNoDeadline }
func (plain) SetWriteDeadline(time.Time) error { return errNoDeadline }
