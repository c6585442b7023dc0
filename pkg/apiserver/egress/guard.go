package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/atoll-dev/atoll/pkg/answers"
)

// DeniedError says that an address may not be called. It has the address as it
// was given, not the one that its name resolves to.
type DeniedError struct{ Address string }

// Error implements error.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("the control plane does not call %s: its administrator may allow the address with %s", e.Address, allowFlag)
}

// errDenied is what the dialer fails with; it never leaves this file.
var errDenied = errors.New("denied")

// Guard dials what tenants name.
type Guard struct {
	policy Policy
	own    []string
	dialer net.Dialer
	// answers are those of webhooks.
	answers *answers.Reader
	// pods connects to pods; nil as long as the server is being made.
	pods atomic.Pointer[DialPod]
}

// NewGuard makes a guard. The ends that are always denied are host:port or URLs:
// where the server listens, for whomever, and its etcd; a unix socket is not reachable
// anyway, and what is empty is none.
func NewGuard(o Options, own ...string) (*Guard, error) {
	policy, err := o.Policy()
	if err != nil {
		return nil, err
	}
	g := &Guard{policy: policy, answers: answers.NewReader(webhookAnswers)}
	for _, end := range own {
		if u, err := url.Parse(end); err == nil && u.Host != "" {
			end = u.Host
		}
		if _, _, err := net.SplitHostPort(end); err == nil {
			g.own = append(g.own, end)
		}
	}
	g.dialer = net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, ControlContext: g.control}
	return g, nil
}

// Transport returns a transport of the guard: without proxies, which would be
// the ones to connect.
func (g *Guard) Transport() *http.Transport {
	return &http.Transport{Proxy: noProxy, DialContext: g.DialContext, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
}

// DialContext connects to address if the policy allows what it resolves to.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := g.dialer.DialContext(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	var lookup *net.DNSError
	switch {
	case errors.Is(err, errDenied):
		return nil, &DeniedError{Address: address}
	case errors.As(err, &lookup): // which servers the control plane asks is its own business
		reason := "the name cannot be looked up"
		if lookup.IsNotFound {
			reason = "no such host"
		}
		return nil, fmt.Errorf("calling %s: %s", address, reason)
	}
	return nil, err
}

// control is called with the address, no name any more, before each attempt to
// connect.
func (g *Guard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return errDenied
	}
	place, err := g.place(ctx, to.Port())
	if err != nil || !g.policy.Allows(to, place) {
		return errDenied
	}
	return nil
}

// place is asked for at each connection: machines get and lose addresses, and
// names of etcd move. What cannot be found out allows nothing.
func (g *Guard) place(ctx context.Context, port uint16) (Place, error) {
	var p Place
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return p, fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(network.IP); ok {
				p.Machine = append(p.Machine, addr.Unmap())
			}
		}
	}
	for _, end := range g.own {
		host, number, err := net.SplitHostPort(end)
		if err != nil || number != strconv.Itoa(int(port)) {
			continue
		}
		if host == "" {
			host = "0.0.0.0"
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return p, fmt.Errorf("looking up the server's own address: %w", err)
		}
		for _, addr := range found {
			p.Own = append(p.Own, netip.AddrPortFrom(addr.Unmap(), port))
		}
	}
	return p, nil
}
