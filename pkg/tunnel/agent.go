package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// lookupInterval is how often the name of the server is looked up.
	lookupInterval = 30 * time.Second
	// dialTimeout bounds how long a tunnel takes to begin.
	dialTimeout = 15 * time.Second
	// firstDelay and lastDelay are between attempts; one that lasts begins anew.
	firstDelay, lastDelay = time.Second, 30 * time.Second
	maxAnswer             = 4 << 10
)

// Agent keeps a tunnel to each address of a server.
type Agent struct {
	// PhysicalCluster is the target whose tunnels they are.
	PhysicalCluster string
	// Server is the way to the server, without a scope.
	Server *rest.Config
	// Handle has the streams.
	Handle Handler
	// Lookup finds the addresses of a host; the resolver of the machine if it is nil.
	Lookup func(ctx context.Context, host string) ([]string, error)
}

// Run keeps the tunnels until ctx ends; then none of its goroutines is left.
func (a *Agent) Run(ctx context.Context) error {
	base, _, err := rest.DefaultServerUrlFor(a.Server)
	if err != nil {
		return fmt.Errorf("reading the address of the server: %w", err)
	}
	var tunnels sync.WaitGroup
	defer tunnels.Wait()
	kept := map[string]context.CancelFunc{}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		found, err := a.lookup(ctx, base.Hostname())
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Looking up the server for tunnels failed", "err", err)
			return // those that there are go on
		}
		for at, end := range kept {
			if !slices.Contains(found, at) {
				end()
				delete(kept, at)
			}
		}
		for _, at := range found {
			if kept[at] != nil {
				continue
			}
			ctx, end := context.WithCancel(ctx)
			kept[at] = end
			tunnels.Go(func() { a.keep(ctx, base, at) })
		}
	}, lookupInterval)
	for _, end := range kept {
		end()
	}
	return nil
}

func (a *Agent) lookup(ctx context.Context, host string) ([]string, error) {
	if net.ParseIP(host) != nil {
		return []string{host}, nil
	}
	lookup := a.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	return lookup(ctx, host)
}

// keep has a tunnel to one address, again and again.
func (a *Agent) keep(ctx context.Context, base *url.URL, at string) {
	logger := klog.FromContext(ctx).WithValues("target", a.PhysicalCluster, "address", at)
	delay := firstDelay
	for ctx.Err() == nil {
		begun := time.Now()
		err := a.tunnel(ctx, base, at)
		if time.Since(begun) > lastDelay {
			delay = firstDelay
		}
		if ctx.Err() == nil && err != nil {
			logger.Info("There is no tunnel to the server: logs and exec of pods do not reach here", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Jitter(delay, 0.5)):
		}
		delay = min(2*delay, lastDelay)
	}
}

// tunnel has one tunnel until it ends.
func (a *Agent) tunnel(ctx context.Context, base *url.URL, at string) error {
	transport, through, err := a.transport(base, at)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(dialTimeout, cancel)
	to := base.JoinPath(scope.Scope{Cluster: scope.Root, Target: a.PhysicalCluster}.Path(), Path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return fmt.Errorf("asking for a tunnel: %w", err)
	}
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {protocol}, "User-Agent": {"atoll-syncer"}}
	resp, err := through.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("asking for a tunnel: %w", err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !late.Stop() || resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what there is of it
		return fmt.Errorf("asking for a tunnel: the server answers %d: %s", resp.StatusCode, answer)
	}
	serve(ctx, conn, a.Handle)
	return nil
}

// transport connects to one address of the server, and verifies that it is the server.
func (a *Agent) transport(base *url.URL, at string) (*http.Transport, http.RoundTripper, error) {
	config := rest.CopyConfig(a.Server)
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrades
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificates for the server: %w", err)
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	transport := &http.Transport{
		Proxy: config.Proxy, TLSClientConfig: tls, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: dialTimeout,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, port, err := net.SplitHostPort(address); err == nil && host == base.Hostname() {
				address = net.JoinHostPort(at, port)
			}
			return dial(ctx, network, address)
		},
	}
	if transport.Proxy == nil {
		transport.Proxy = http.ProxyFromEnvironment
	}
	through, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the credential for the server: %w", err)
	}
	return transport, through, nil
}
