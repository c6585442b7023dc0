package connection

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

	"github.com/atoll-dev/atoll/pkg/answers"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/wire"
)

// The limits of the two servers protect them; those of the clients would only
// add latency.
const (
	clientQPS   = 1000
	clientBurst = 2000
)

const (
	// QuestionTimeout bounds one question to a server about itself.
	QuestionTimeout = 5 * time.Second
	// RequestTimeout bounds a request about an object to the physical cluster.
	RequestTimeout = 20 * time.Second
)

// physicalAnswers bounds what a physical cluster answers: a syncer in the server is
// beside those of others. Lists are what is large; those that find no room beside others
// are asked for again later.
var physicalAnswers = answers.Bounds{Most: 256 << 20, Together: 256 << 20, Free: 64 << 10, Watches: true, Owner: func(*http.Request) string { return "" }}

// ControlPlane are the clients of the control plane; every context names a scope.
type ControlPlane struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Atoll    versioned.Interface
	Kube     kubernetes.Interface
	// Server notices that the control plane went back in time.
	Server *controller.Server
}

// Physical are the clients of the physical cluster.
type Physical struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Kube     kubernetes.Interface
	// Server notices that the physical cluster went back in time.
	Server *controller.Server
}

// Guard is a transport around another one.
type Guard func(http.RoundTripper) http.RoundTripper

// NewControlPlane makes the clients of the control plane; what they send passes guard.
func NewControlPlane(c *rest.Config, guard Guard, watching controller.ServerOptions) (cp ControlPlane, err error) {
	cp.Server = controller.NewServer("control plane", watching)
	c = tuned(scope.ScopedConfig(c))
	c.Wrap(defaultTimeouts.with)
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return cp, fmt.Errorf("making a transport to the control plane: %w", err)
	}
	client = guarded(client, guard)
	if cp.Dynamic, err = wire.NewDynamicForClient(c, client); err == nil {
		cp.Metadata, err = metadata.NewForConfigAndClient(c, client)
	}
	if err == nil {
		cp.Atoll, err = versioned.NewForConfigAndClient(c, client)
	}
	if err == nil {
		cp.Kube, err = kubernetes.NewForConfigAndClient(c, client)
	}
	if err != nil {
		return cp, fmt.Errorf("making clients of the control plane: %w", err)
	}
	return cp, nil
}

// NewLeases makes a client for the Lease alone: however much else there is to send,
// it waits neither for a limit nor in the buffers of a connection.
func NewLeases(c *rest.Config) (coordinationclient.CoordinationV1Interface, error) {
	c = tuned(scope.ScopedConfig(c))
	c.QPS, c.Burst = -1, 0
	if c.Transport == nil {
		c.Dial = (&net.Dialer{Timeout: QuestionTimeout, KeepAlive: 10 * time.Second}).DialContext // a transport is made for each dialer
	}
	leases, err := coordinationclient.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making a client for the Leases of the control plane: %w", err)
	}
	return leases, nil
}

// NewPhysical makes the clients of the physical cluster; what they send passes guard,
// and then the gate, which lets it through to the cluster that is meant.
func NewPhysical(c *rest.Config, guard Guard, watching controller.ServerOptions) (p Physical, g *Gate, err error) {
	p.Server = controller.NewServer("physical cluster", watching)
	c = tuned(rest.CopyConfig(c))
	g = &Gate{}
	if c.Transport == nil {
		// Who cannot connect has it reported now, and not with the next look: a namespace may be about to leave another
		// physical cluster for this one.
		c.Dial = identified(c.Dial, func() { g.known.Store(false) }, func() { g.Notice("", false) })
	}
	c.Wrap(answers.NewReader(physicalAnswers).With)
	c.Wrap(defaultTimeouts.with)
	open, err := rest.HTTPClientFor(c)
	if err != nil {
		return p, nil, fmt.Errorf("making a transport to the physical cluster: %w", err)
	}
	g.idle = func() { utilnet.CloseIdleConnectionsFor(open.Transport) }
	client := guarded(open, func(next http.RoundTripper) http.RoundTripper {
		return guard(gated{gate: g, next: next})
	})
	if g.probe, err = kubernetes.NewForConfigAndClient(c, open); err == nil {
		p.Dynamic, err = wire.NewDynamicForClient(c, client)
	}
	if err == nil {
		p.Metadata, err = metadata.NewForConfigAndClient(c, client)
	}
	if err == nil {
		p.Kube, err = kubernetes.NewForConfigAndClient(c, client)
	}
	if err != nil {
		return p, nil, fmt.Errorf("making clients of the physical cluster: %w", err)
	}
	return p, g, nil
}

// guarded is a client like another, with something around its transport.
func guarded(c *http.Client, guard Guard) *http.Client {
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return &http.Client{Transport: guard(next), Timeout: c.Timeout}
}

func tuned(c *rest.Config) *rest.Config {
	c.QPS, c.Burst, c.RateLimiter = clientQPS, clientBurst, nil
	c.WarningHandler = rest.NoWarnings{} // they are meant for who wrote the object, not for our log
	if c.UserAgent == "" {
		c.UserAgent = "atoll-syncer"
	}
	return c
}
