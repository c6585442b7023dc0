package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controllers/volumecopies"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/tunnel"
)

// reach finds the way into the pods of a physical cluster.
func (c *composition) reach(ctx context.Context, name string) (pods.Target, error) {
	pc, uid, err := c.settled(name)
	if err != nil {
		return pods.Target{}, err
	}
	link, err := c.link(ctx, pc)
	return pods.Target{Link: link, UID: uid, ControlPlane: pc.Status.ControlPlane}, err
}

// settled is a physical cluster of which it is known which one it is to be, and that it is that.
func (c *composition) settled(name string) (pc *fleetv1alpha1.PhysicalCluster, uid types.UID, err error) {
	pc, ok := c.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	if !ok || pc.Spec.Forget {
		return nil, "", reach.Unavailable("it is not registered any more")
	}
	meant := pc.Spec.Identity
	if meant == "" {
		meant = pc.Status.Identity.UID
	}
	if meant == "" || pc.Status.Identity.Accepted != meant || pc.Status.ControlPlane == "" {
		return nil, "", reach.Unavailable("which cluster it is has not been settled yet")
	}
	return pc, meant, nil
}

// reachVolumes finds the way to what copies volumes.
func (c *composition) reachVolumes(ctx context.Context, name string) (volumecopies.Target, error) {
	target, err := c.reach(ctx, name)
	return volumecopies.Target{Link: target.Link, UID: target.UID, ControlPlane: target.ControlPlane}, err
}

// present asks a physical cluster whether it is there; nil also if there is no way to ask it: which
// cluster it is has not been settled, no tunnel was ever there, as where a network lets none through,
// or it is full. That says nothing about it. That a tunnel to this server ended does, until its
// syncer had the time to make another.
func (c *composition) present(ctx context.Context, name string) error {
	pc, uid, err := c.settled(name)
	if err != nil {
		return nil
	}
	if pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush {
		link, err := c.links.To(ctx, pc)
		if err != nil {
			return err
		}
		return reach.Present(ctx, link, uid, pc.Status.ControlPlane)
	}
	var way error
	link := reach.Remote{Dial: func(ctx context.Context) (conn net.Conn, err error) {
		conn, way = c.stream(ctx, pc)
		return conn, way
	}}
	err = reach.Present(ctx, link, uid, pc.Status.ControlPlane)
	return throughTunnel(err, way, c.tunnels.Ended(tunnelOf(pc.Name, pc.UID)), time.Now())
}

// throughTunnel is what it means that a physical cluster was asked through a tunnel: way is the error
// of the tunnels, ended when the last one to this server ended.
//
//	way       the last tunnel ended     then
//	ErrFull   any                       nil: nobody could ask
//	ErrNone   never, or long ago        nil: nobody could ask
//	ErrNone   within placement.Silence  why it is not there
//	any else  any                       as answered
func throughTunnel(answered, way error, ended, now time.Time) error {
	switch {
	case errors.Is(way, tunnel.ErrFull):
		return nil
	case errors.Is(way, tunnel.ErrNone):
		if ended.IsZero() || now.Sub(ended) > placement.Silence {
			return nil
		}
		return fmt.Errorf("the tunnel of its syncer ended %s ago, and there is no other one", now.Sub(ended).Round(time.Second))
	}
	return answered
}

func (c *composition) link(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (reach.Link, error) {
	if pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush {
		return c.links.To(ctx, pc)
	}
	return reach.Remote{Dial: func(ctx context.Context) (net.Conn, error) { return c.dial(ctx, pc) }}, nil
}

// stream opens one to a syncer: through a tunnel to this server, or to another one.
func (c *composition) stream(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (net.Conn, error) {
	conn, err := c.tunnels.Dial(ctx, tunnelOf(pc.Name, pc.UID))
	if errors.Is(err, tunnel.ErrNone) {
		return c.peers().Dial(ctx, pc.Name, string(pc.UID))
	}
	return conn, err
}

// dial is stream with an error that is fit for a user.
func (c *composition) dial(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (net.Conn, error) {
	conn, err := c.stream(ctx, pc)
	if errors.Is(err, tunnel.ErrNone) {
		return nil, reach.Unavailable("its syncer has no tunnel to this server, nor to another one of the control plane")
	}
	return conn, err
}

// tunnelOf is what the tunnels of a PhysicalCluster are found by: what had its name before has others.
func tunnelOf(name string, uid types.UID) string { return name + "/" + string(uid) }

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

// giveStream gives another server a stream to a syncer that has a tunnel to this one. A server from
// before they said the UID means the PhysicalCluster of this name that is registered.
func (c *composition) giveStream(w http.ResponseWriter, req *http.Request, target string) {
	uid, meant := c.pulls(target)
	if said := req.URL.Query().Get(tunnel.PeerUID); !meant || said != "" && said != string(uid) {
		http.Error(w, "there is no such PhysicalCluster with a connection of type Pull", http.StatusNotFound)
		return
	}
	c.tunnels.Give(w, req, tunnelOf(target, uid))
}

// pulls says that a physical cluster is one whose syncer has a tunnel, and which one that is.
func (c *composition) pulls(target string) (uid types.UID, ok bool) {
	pc, ok := c.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
	if !ok || pc.Spec.Forget || pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush {
		return "", false
	}
	return pc.UID, true
}

// endStreams ends the streams into a physical cluster that goes, or is reached in another
// way by now.
func (c *composition) endStreams(old, new *fleetv1alpha1.PhysicalCluster) {
	if old == nil || new != nil && new.UID == old.UID && !new.Spec.Forget && new.Spec.Connection.Type == old.Spec.Connection.Type {
		return
	}
	c.streams.EndOn(old.Name)
	c.tunnels.CloseTo(tunnelOf(old.Name, old.UID))
	c.links.Forget(old.Name)
}

// acceptTunnel takes the tunnel of a syncer that is waited for: not that of a physical
// cluster that is gone, or that the server connects to itself. One that this server does not
// know yet is asked for again.
func (c *composition) acceptTunnel(w http.ResponseWriter, req *http.Request, target string, uid types.UID) {
	if now, ok := c.pulls(target); !ok || now != uid {
		http.Error(w, "no tunnel is needed: there is no such PhysicalCluster with a connection of type Pull", http.StatusNotFound)
		return
	}
	c.tunnels.Accept(w, req, tunnelOf(target, uid))
	if now, ok := c.pulls(target); !ok || now != uid { // it went before endStreams could find this
		c.tunnels.CloseTo(tunnelOf(target, uid))
	}
}
