package app

import (
	"context"
	"net"
	"net/http"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
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

func (c *composition) link(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (reach.Link, error) {
	if pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush {
		return c.links.To(ctx, pc)
	}
	if c.tunnels.Tunnels(pc.Name) == 0 {
		return nil, reach.Unavailable("its syncer has no tunnel to this server of the control plane")
	}
	return reach.Remote{Dial: func(ctx context.Context) (net.Conn, error) { return c.tunnels.Dial(ctx, pc.Name) }}, nil
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
	pc, ok := c.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
	if !ok || pc.Spec.Forget || pc.Spec.Connection.Type == fleetv1alpha1.ConnectionPush {
		http.Error(w, "no tunnel is needed: there is no PhysicalCluster of this name with a connection of type Pull", http.StatusNotFound)
		return
	}
	c.tunnels.Accept(w, req, target)
}
