package tunnel

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// Path is what an agent asks for in the view of its target of the logical cluster root.
	Path = "/tunnel"
	// protocol is what it asks to upgrade to.
	protocol = "atoll-tunnel"

	// maxStreams is how many streams a tunnel has at a time, window how many bytes of
	// each may be under way, or wait for who reads.
	maxStreams = 500
	window     = 512 << 10

	// pingInterval is after which silence a ping is sent, pingTimeout how long its answer
	// takes at most.
	pingInterval = 15 * time.Second
	pingTimeout  = 15 * time.Second
	// writeTimeout is how long a write to the connection makes no progress at most.
	writeTimeout = 30 * time.Second

	helloPath  = "/hello"
	streamPath = "/stream"
)

// h2 is what both ends set: no window of the connection is ever used up by streams.
func h2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, StrictMaxConcurrentRequests: true, MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: window * maxStreams,
		SendPingTimeout: pingInterval, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout,
	}
}

func onlyHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true) // what is below is encrypted
	return p
}

// address is that of what has none.
type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "tunnel" }

func (address) String() string { return "tunnel" }

// wrapped makes a connection of a stream of bytes. It has no deadlines: who waits closes it.
type wrapped struct {
	io.ReadWriteCloser
	// closed is called once.
	closed func()
	once   *sync.Once
}

func wrap(rwc io.ReadWriteCloser, closed func()) net.Conn {
	return wrapped{rwc, closed, &sync.Once{}}
}

// Close implements net.Conn.
func (w wrapped) Close() error {
	err := w.ReadWriteCloser.Close()
	w.once.Do(w.closed)
	return err
}

// LocalAddr implements net.Conn.
func (wrapped) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (wrapped) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (wrapped) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (wrapped) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (wrapped) SetWriteDeadline(time.Time) error { return nil }
