package agent

import (
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// The limits of the two servers protect them; those of the clients would only
// add latency.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

// connect makes the clients. What they write waits at the fence for the Lease, and at
// the gate for the physical cluster that is meant.
func (a *Agent) connect(c Config) error {
	up := tuned(scope.ScopedConfig(c.Upstream))
	var err error
	if a.up, err = newUpstream(up, &a.fence); err == nil {
		a.leases, err = newLeases(up)
	}
	if err != nil {
		return fmt.Errorf("making clients of the control plane: %w", err)
	}
	if a.down, a.gate, err = newPhysical(tuned(rest.CopyConfig(c.Physical)), &a.fence); err != nil {
		return fmt.Errorf("making clients of the physical cluster: %w", err)
	}
	return nil
}

func newUpstream(c *rest.Config, f *fence) (u upstream, err error) {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return u, err
	}
	client = wrapped(client, func(next http.RoundTripper) http.RoundTripper { return fenced{fence: f, next: next} })
	if u.dynamic, err = dynamic.NewForConfigAndClient(c, client); err != nil {
		return u, err
	}
	if u.metadata, err = metadata.NewForConfigAndClient(c, client); err != nil {
		return u, err
	}
	if u.atoll, err = versioned.NewForConfigAndClient(c, client); err != nil {
		return u, err
	}
	u.kube, err = kubernetes.NewForConfigAndClient(c, client)
	return u, err
}

// newLeases makes a client for the Lease alone: however much else there is to send,
// it waits neither for a limit nor in the buffers of a connection.
func newLeases(c *rest.Config) (coordinationclient.CoordinationV1Interface, error) {
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = -1, 0
	if c.Transport == nil {
		c.Dial = (&net.Dialer{Timeout: questionTimeout, KeepAlive: 10 * time.Second}).DialContext // a transport is made for each dialer
	}
	return coordinationclient.NewForConfig(c)
}

func newPhysical(c *rest.Config, f *fence) (p physical, g *gate, err error) {
	g = &gate{alarm: func() {}}
	if c.Transport == nil {
		c.Dial = identified(c.Dial, func() { g.known.Store(false) })
	}
	open, err := rest.HTTPClientFor(c)
	if err != nil {
		return p, nil, err
	}
	if g.probe, err = kubernetes.NewForConfigAndClient(c, open); err != nil {
		return p, nil, err
	}
	g.fresh = func() { utilnet.CloseIdleConnectionsFor(open.Transport) }
	client := wrapped(open, func(next http.RoundTripper) http.RoundTripper {
		return fenced{fence: f, next: gated{gate: g, next: next}}
	})
	if p.dynamic, err = dynamic.NewForConfigAndClient(c, client); err != nil {
		return p, nil, err
	}
	if p.metadata, err = metadata.NewForConfigAndClient(c, client); err != nil {
		return p, nil, err
	}
	p.kube, err = kubernetes.NewForConfigAndClient(c, client)
	return p, g, err
}

// wrapped is a client like another, with something around its transport.
func wrapped(c *http.Client, wrap func(http.RoundTripper) http.RoundTripper) *http.Client {
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return &http.Client{Transport: wrap(next), Timeout: c.Timeout}
}

func tuned(c *rest.Config) *rest.Config {
	c.QPS, c.Burst, c.RateLimiter = clientQPS, clientBurst, nil
	c.WarningHandler = rest.NoWarnings{} // they are meant for who wrote the object, not for our log
	if c.UserAgent == "" {
		c.UserAgent = "atoll-syncer"
	}
	return c
}
