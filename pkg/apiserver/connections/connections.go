// Package connections bounds how many connections the server has at a time, and decides
// who loses one when there is no room: whoever holds connections without saying who he
// is, then whoever holds the most. Each takes a file descriptor of the process, whose
// etcd cannot go on without one.
package connections

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

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

// Most is how many connections a process may have now: as many as asked for, and never
// more than three quarters of its file descriptors; 0 asks for half of them. The others
// are for etcd, files, and whatever the server calls.
func Most(asked int) int {
	const all = 1 << 20
	files := uint64(1024) // what is the limit nearly everywhere
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		files = min(limit.Cur, all)
	}
	if asked == 0 {
		return int(files / 2)
	}
	return min(asked, int(files/4*3))
}

// fitInterval is how often a Listener looks whether it may have fewer connections than it has.
const fitInterval = time.Second

// Listener is a net.Listener with no more than a number of open connections.
type Listener struct {
	net.Listener
	most  func() int
	ended chan struct{}
	end   sync.Once

	mu    sync.Mutex
	open  map[string]*conn // by remote address
	table table
}

// Bound makes a Listener of l. most is asked anew all the time: somebody may lower the
// limits of a running process.
func Bound(l net.Listener, most func() int) *Listener {
	once.Do(func() { legacyregistry.MustRegister(closed) })
	b := &Listener{Listener: l, most: most, ended: make(chan struct{}), open: map[string]*conn{}, table: table{}}
	go b.keep() // until Close
	return b
}

// Accept implements net.Listener. It makes room first, or closes what it accepted.
//
// Without a free file descriptor nothing can be accepted, and who waits at the socket
// holds one more than there is: somebody gives way, and the caller tries again.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			l.mu.Lock()
			l.fit(min(l.most(), len(l.open)-1))
			l.mu.Unlock()
		}
		if err != nil {
			return nil, err
		}
		if c := l.take(accepted); c != nil {
			return c, nil
		}
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// keep has those give way that there is no room for any more.
func (l *Listener) keep() {
	ticker := time.NewTicker(fitInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.mu.Lock()
			l.fit(l.most())
			l.mu.Unlock()
		case <-l.ended:
			return
		}
	}
}

// fit is called with mu held. It returns false if more than most connections are left, as
// nobody gives way.
func (l *Listener) fit(most int) bool {
	for len(l.open) > max(most, 0) {
		victim, whose := l.table.victim()
		if victim == nil {
			return false
		}
		closed.WithLabelValues(whose).Inc()
		l.drop(victim)
		_ = victim.Conn.Close()
	}
	return true
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
	if !l.fit(l.most() - 1) {
		closed.WithLabelValues("New").Inc()
		_ = accepted.Close()
		return nil
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
