package presence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// Label marks the Leases of servers.
	Label = "atoll.dev/server"
	// renewInterval is how often a server says that it is there, lifetime how long it is believed,
	// and retention after which silence its Lease is deleted.
	renewInterval = 15 * time.Second
	lifetime      = time.Minute
	retention     = time.Hour
	// deleteTimeout bounds the deletion of the Lease of a server that leaves.
	deleteTimeout = 5 * time.Second
)

// Config is what a Controller needs.
type Config struct {
	Kube kubernetes.Interface
	// Address is where other servers reach this one, as host:port.
	Address string
	// Leases are those of all logical clusters.
	Leases func() []*coordinationv1.Lease
	Clock  clock.Clock
}

// Controller holds the Lease of this server, and knows those of the others.
type Controller struct {
	Config
	mu sync.Mutex
	// heard are the renewals of each Lease that this server knows, by name.
	heard map[string]heard
}

// heard is a renewal, by the clock of who renewed, and when it was heard of, by that of this server: they may differ by
// more than a server is believed.
type heard struct{ renewed, at time.Time }

// New returns a controller that does nothing before Run.
func New(c Config) *Controller {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &Controller{Config: c, heard: map[string]heard{}}
}

// Run holds the Lease until ctx ends, and deletes it then.
func (c *Controller) Run(ctx context.Context) {
	ctx = scope.With(ctx, scope.Scope{Cluster: scope.Root})
	name := nameOf(c.Address)
	go wait.UntilWithContext(ctx, c.collect, retention/4)
	go wait.UntilWithContext(ctx, func(context.Context) { c.hear() }, renewInterval)
	lease.NewController(c.Clock, c.Kube, c.Address, int32(lifetime/time.Second), nil, renewInterval, name, metav1.NamespaceSystem,
		func(l *coordinationv1.Lease) error {
			l.Labels = map[string]string{Label: "true"}
			return nil
		}).Run(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := c.Kube.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("The Lease of this server stays until it ends by itself", "err", err)
	}
}

// nameOf is the name of the Lease of a server, beside which upstream has those of its own.
func nameOf(address string) string {
	sum := sha256.Sum256([]byte(address))
	return "apiserver-" + hex.EncodeToString(sum[:8])
}

// Others are the addresses of the servers that are there beside this one, sorted.
func (c *Controller) Others() []string { return others(c.hear(), c.Address, c.Clock.Now()) }

// hear takes note of renewals, and returns the Leases with when this server heard of them: of one that it finds at the
// start that is what the Lease says, and no later than now.
func (c *Controller) hear() []*coordinationv1.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, known := c.Clock.Now(), map[string]heard{}
	var leases []*coordinationv1.Lease
	for _, l := range c.Leases() {
		if !ofServer(l) {
			continue
		}
		h, ok := c.heard[l.Name]
		switch {
		case !ok && renewed(l).Before(now):
			h = heard{renewed(l), renewed(l)}
		case !ok, !h.renewed.Equal(renewed(l)):
			h = heard{renewed(l), now}
		}
		known[l.Name] = h
		l = l.DeepCopy()
		l.Spec.RenewTime = &metav1.MicroTime{Time: h.at}
		leases = append(leases, l)
	}
	c.heard = known
	return leases
}

// others reads them from Leases, with the times of hear:
//
//	the Lease                                   is another server
//	is not in kube-system of root, or has no   no: anybody may write it
//	label of ours, or no holder
//	is that of this server                      no
//	was renewed within its lifetime             yes
//	was not                                     no
func others(leases []*coordinationv1.Lease, own string, now time.Time) (addresses []string) {
	for _, l := range leases {
		if address := ptr.Deref(l.Spec.HolderIdentity, ""); ofServer(l) && address != "" && address != own && now.Sub(renewed(l)) < lifetime {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

func ofServer(l *coordinationv1.Lease) bool {
	return logicalcluster.From(l) == scope.Root && l.Namespace == metav1.NamespaceSystem && l.Labels[Label] != ""
}

func renewed(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return l.CreationTimestamp.Time
	}
	return l.Spec.RenewTime.Time
}

// collect deletes the Leases of servers that never came back.
func (c *Controller) collect(ctx context.Context) {
	for _, l := range c.hear() {
		if c.Clock.Now().Sub(renewed(l)) < retention {
			continue
		}
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
		err := c.Kube.CoordinationV1().Leases(l.Namespace).Delete(ctx, l.Name, options)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			klog.FromContext(ctx).Error(fmt.Errorf("deleting a Lease: %w", err), "The Lease of a server that is gone stays", "lease", l.Name)
		}
	}
}
