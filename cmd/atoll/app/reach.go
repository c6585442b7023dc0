package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controllers/volumecopies"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/tunnel"
)

// reach finds the way into the pods of a physical cluster.
func (c *composition) reach(ctx context.Context, name string) (pods.Target, error) {
	pc, ok := c.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	if !ok || pc.Spec.Forget {
		return pods.Target{}, reach.Unavailable("it is not registered any more")
	}
	meant := pc.Spec.Identity
	if meant == "" {
		meant = pc.Status.Identity.UID
	}
	if meant == "" || pc.Status.Identity.Accepted != meant || pc.Status.ControlPlane == "" {
		return pods.Target{}, reach.Unavailable("which cluster it is has not been settled yet")
	}
	link, err := c.link(ctx, pc)
	return pods.Target{Link: link, UID: meant, ControlPlane: pc.Status.ControlPlane}, err
}

// reachVolumes finds the way to what copies volumes.
func (c *composition) reachVolumes(ctx context.Context, name string) (volumecopies.Target, error) {
	target, err := c.reach(ctx, name)
	return volumecopies.Target{Link: target.Link, UID: target.UID, ControlPlane: target.ControlPlane}, err
}

func (c *composition) link(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (reach.Link, error) {
	if pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush {
		return c.links.To(ctx, pc)
	}
	return reach.Remote{Dial: func(ctx context.Context) (net.Conn, error) { return c.dial(ctx, pc.Name) }}, nil
}

// dial opens a stream to a syncer: through a tunnel to this server, or to another one.
func (c *composition) dial(ctx context.Context, target string) (net.Conn, error) {
	conn, err := c.tunnels.Dial(ctx, target)
	if errors.Is(err, tunnel.ErrNone) {
		conn, err = c.peers().Dial(ctx, target)
	}
	if errors.Is(err, tunnel.ErrNone) {
		return nil, reach.Unavailable("its syncer has no tunnel to this server, nor to another one of the control plane")
	}
	return conn, err
}

// peers are the other servers.
func (c *composition) peers() *tunnel.Peers {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.keys.CAPEM)
	p := &tunnel.Peers{Addresses: func() []string { return nil }, Roots: roots, Certificate: func() (tls.Certificate, error) {
		cert, key, err := c.keys.Client(auth.ServerUser)
		if err != nil {
			return tls.Certificate{}, err
		}
		return tls.X509KeyPair(cert, key)
	}}
	if c.presence != nil {
		p.Addresses = c.presence.Others
	}
	return p
}

// giveStream gives another server a stream to a syncer that has a tunnel to this one.
func (c *composition) giveStream(w http.ResponseWriter, req *http.Request, target string) {
	if !c.pulls(target) {
		http.Error(w, "there is no PhysicalCluster of this name with a connection of type Pull", http.StatusNotFound)
		return
	}
	c.tunnels.Give(w, req, target)
}

// pulls says that a physical cluster is one whose syncer has a tunnel.
func (c *composition) pulls(target string) bool {
	pc, ok := c.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
	return ok && !pc.Spec.Forget && pc.Spec.Connection.Type != fleetv1alpha1.ConnectionPush
}

// endStreams ends the streams into a physical cluster that goes, or is reached in another
// way by now.
func (c *composition) endStreams(old, new *fleetv1alpha1.PhysicalCluster) {
	if old == nil || new != nil && new.UID == old.UID && !new.Spec.Forget && new.Spec.Connection.Type == old.Spec.Connection.Type {
		return
	}
	c.streams.EndOn(old.Name)
	c.tunnels.CloseTo(old.Name)
	c.links.Forget(old.Name)
}

// acceptTunnel takes the tunnel of a syncer that is waited for: not that of a physical
// cluster that is gone, or that the server connects to itself.
func (c *composition) acceptTunnel(w http.ResponseWriter, req *http.Request, target string) {
	if !c.pulls(target) {
		http.Error(w, "no tunnel is needed: there is no PhysicalCluster of this name with a connection of type Pull", http.StatusNotFound)
		return
	}
	c.tunnels.Accept(w, req, target)
}
