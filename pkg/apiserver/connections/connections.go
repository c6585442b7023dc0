// Package connections bounds how many connections the server has at a time, and decides
// who loses one when there is no room: whoever holds connections without saying who he
// is, then whoever holds the most. Each takes a file descriptor of the process, whose
// etcd cannot go on without one.
package connections

import (
	"net"
	"sync"
	"syscall"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	closed = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "atoll_connections_closed_total",
		Help:           "Connections that the server closed for others, by whose they were: Unauthenticated, Authenticated, or New if nobody else had to give way.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"whose"})
	once sync.Once // metrics are of the process
)

// Most is how many connections a process may have: half of its file descriptors. The
// others are for etcd, files, and whatever the server calls.
func Most() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 512 // half of what is the limit nearly everywhere
	}
	return int(min(files.Cur, 1<<20) / 2)
}

// Listener is a net.Listener with no more than a number of open connections.
type Listener struct {
	net.Listener
	most int

	mu    sync.Mutex
	open  map[string]*conn // by remote address
	table table
}

// Bound makes a Listener of l.
func Bound(l net.Listener, most int) *Listener {
	once.Do(func() { legacyregistry.MustRegister(closed) })
	return &Listener{Listener: l, most: most, open: map[string]*conn{}, table: table{}}
}

// Accept implements net.Listener. It makes room first, or closes what it accepted.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.take(accepted); c != nil {
			return c, nil
		}
	}
}

// take returns nil if there is no room.
func (l *Listener) take(accepted net.Conn) *conn {
	address := accepted.RemoteAddr().String()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		victim, whose := l.table.victim()
		closed.WithLabelValues(whose).Inc()
		if victim == nil {
			_ = accepted.Close()
			return nil
		}
		l.drop(victim)
		_ = victim.Conn.Close()
	}
	c := &conn{Conn: accepted, listener: l, address: address}
	l.open[address] = c
	l.table.add(c, owner{name: host})
	return c
}

// Authenticated notes who speaks through the connection from a remote address. Those of
// an exempt one give way to nobody.
func (l *Listener) Authenticated(address, name string, exempt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[address]
	if c == nil || c.owner.authenticated {
		return // who speaks first counts: changing names moves nobody's connections
	}
	l.table.remove(c)
	l.table.add(c, owner{name: name, authenticated: true, exempt: exempt})
}

// drop is called with mu held.
func (l *Listener) drop(c *conn) {
	if l.open[c.address] == c {
		delete(l.open, c.address)
		l.table.remove(c)
	}
}

// conn leaves its listener when it is closed.
type conn struct {
	net.Conn
	listener *Listener
	address  string
	owner    owner
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.drop(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
