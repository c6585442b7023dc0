package egress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// podsTimeout bounds connecting to a Service that runs below, whatever is tried for it;
	// podsAttempts is how many of its pods are tried.
	podsTimeout  = 8 * time.Second
	podsAttempts = 3
	// podsIdle is how many idle connections there are for a client and a set of pods, and
	// podsIdleTimeout for how long: each goes through a physical cluster.
	podsIdle        = 8
	podsIdleTimeout = 30 * time.Second
)

// DialPod connects to a port of a pod of the logical cluster of ctx, which must have uid.
// closeIdle is called when there are too many connections.
type DialPod func(ctx context.Context, namespace, name string, uid types.UID, port int32, closeIdle func()) (net.Conn, error)

// DialPods says how pods are connected to. Before it is called none is.
func (g *Guard) DialPods(dial DialPod) { g.pods.Store(&dial) }

// Caller connects for one client to what Services of a logical cluster lead to: into their
// pods, or, as the Guard, to addresses.
type Caller struct {
	guard    *Guard
	services Services
	// closeIdle closes the idle connections of the client.
	closeIdle atomic.Pointer[func()]
}

// Caller makes one for a client of a logical cluster.
func (g *Guard) Caller(s Services) *Caller { return &Caller{guard: g, services: s} }

// Transport returns a transport of the caller.
func (c *Caller) Transport() *http.Transport {
	t := c.guard.Transport()
	t.DialContext = c.DialContext
	c.own(t)
	return t
}

// own makes t, which is the client's own, one that keeps few idle connections.
func (c *Caller) own(t *http.Transport) {
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = podsIdle, podsIdleTimeout
	closeIdle := t.CloseIdleConnections
	c.closeIdle.Store(&closeIdle)
}

// DialContext connects to address: into a pod if it is a host that Locate made, else as the
// Guard does.
func (c *Caller) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address %q: %w", address, err)
	}
	namespace, name, ok := serviceOf(host)
	if !ok {
		return c.guard.DialContext(ctx, network, address)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("reading the port of %q: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(c.services.in(ctx), podsTimeout)
	defer cancel()
	return c.dialService(ctx, namespace, name, int32(number))
}

// dialService connects to one of the pods of a Service, as they are now.
func (c *Caller) dialService(ctx context.Context, namespace, name string, port int32) (net.Conn, error) {
	service, known, err := c.services.read(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	backends, err := Backends(service, known, port)
	if err != nil {
		return nil, err
	}
	dial := c.guard.pods.Load()
	if dial == nil {
		return nil, errors.New("the server is starting")
	}
	conn, err := dialFirst(ctx, *dial, shuffled(backends), c.idle)
	if err != nil {
		return nil, fmt.Errorf("service %s/%s: %w", namespace, name, err)
	}
	return conn, nil
}

func shuffled(backends []Backend) []Backend {
	backends = slices.Clone(backends)
	rand.Shuffle(len(backends), func(i, j int) { backends[i], backends[j] = backends[j], backends[i] })
	return backends
}

// DialAny connects to any of backends, with dial, which gets no closeIdle.
func DialAny(ctx context.Context, dial DialPod, backends []Backend) (net.Conn, error) {
	return dialFirst(ctx, dial, shuffled(backends), nil)
}

// dialFirst connects to the first of backends that can be reached; the error is that of the first.
func dialFirst(ctx context.Context, dial DialPod, backends []Backend, closeIdle func()) (net.Conn, error) {
	var first error
	for _, b := range backends[:min(len(backends), podsAttempts)] {
		conn, err := dial(ctx, b.Namespace, b.Pod, b.UID, b.Port, closeIdle)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = fmt.Errorf("pod %s: %w", b.Pod, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (c *Caller) idle() {
	if closeIdle := c.closeIdle.Load(); closeIdle != nil {
		(*closeIdle)()
	}
}
