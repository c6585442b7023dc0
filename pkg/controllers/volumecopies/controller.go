package volumecopies

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

const (
	// maxCopies is how many volumes are copied at a time by a server, and maxOfCluster how many of one
	// logical cluster.
	maxCopies    = 8
	maxOfCluster = 3
	// retryInterval is when to begin again after an attempt that ended, or when there is no room.
	retryInterval = 5 * time.Second
	// reportInterval is how often it is reported how far a copy is.
	reportInterval = 5 * time.Second
	// dialTimeout bounds connecting to a pod.
	dialTimeout = 30 * time.Second
)

var claims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

// Target is the way into a physical cluster, which is the one with UID.
type Target struct {
	Link         reach.Link
	UID          types.UID
	ControlPlane string
}

// Config is what the controller needs.
type Config struct {
	Client   versioned.Interface
	Metadata metadata.Interface
	Copies   *copyindex.Informer
	// PhysicalClusters say how much is copied at most.
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	// Reach finds the way into a physical cluster. The error is fit for a user.
	Reach func(ctx context.Context, physicalCluster string) (Target, error)
}

// Controller passes data on.
type Controller struct {
	Config
	queue *controller.Controller[controller.Request]

	mu sync.Mutex
	// copying counts copies by logical cluster.
	copying map[logicalcluster.Name]int
}

// New makes the controller.
func New(config Config) *Controller {
	c := &Controller{Config: config, copying: map[logicalcluster.Name]int{}}
	c.queue = controller.New("volumecopies", maxCopies, c.reconcile)
	config.Copies.Handle(func(_, next *placementv1alpha1.Copy) {
		if next != nil && (fills(next) || next.Status.Volume != nil && next.Status.Volume.Helper != nil) {
			for _, other := range copyindex.Of(config.Copies, copyindex.ObjectOf(next)) {
				c.queue.Enqueue(controller.RequestFor(other))
			}
			c.queue.Enqueue(controller.RequestFor(next))
		}
	})
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

// fills says that a pod may take data for a copy.
func fills(c *placementv1alpha1.Copy) bool {
	v := c.Status.Volume
	return v != nil && v.Helper != nil && v.Helper.Ready && v.Filled == nil
}

// reconcile looks at the Copy of a claim.
//
//	its pod         the claim says that data   where they are    then
//	                are copied into it
//	is not ready    any                        any               nothing: it will be said
//	is ready        no                         any               nothing
//	is ready        yes                        no pod is ready   nothing: it will be said
//	is ready        yes                        a pod is ready    an attempt, if there is room; again after it
//
// The claim is read from the database: what watches know may be of before.
func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	to, ok := c.Copies.Get(key)
	if !ok || to.Spec.Object.Resource != claims.Resource || to.Spec.Object.Group != "" || !fills(to) {
		return controller.Result{}, nil
	}
	claim, err := c.Metadata.Resource(claims).Namespace(key.Namespace).Get(ctx, to.Spec.Object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading the claim: %w", err)
	}
	from := c.source(claim, to)
	if from == nil {
		return controller.Result{}, nil
	}
	if !c.begin(key.Cluster) {
		return controller.Result{RequeueAfter: retryInterval}, nil
	}
	defer c.end(key.Cluster)
	c.attempt(ctx, key, claim, from, to)
	return controller.Result{RequeueAfter: retryInterval}, nil
}

// source is the Copy whose data are copied into to; nil if none are now.
func (c *Controller) source(claim *metav1.PartialObjectMetadata, to *placementv1alpha1.Copy) *placementv1alpha1.Copy {
	targets := stamp.TargetsOf(claim.Annotations)
	entry, ok := targets[to.Spec.PhysicalCluster]
	if !ok || !entry.Keeps() || entry.Volume == nil || !entry.Volume.Copied || claim.UID != to.Spec.Object.UID {
		return nil
	}
	if targets[entry.Volume.From].State != placementv1alpha1.TargetStateDraining {
		return nil
	}
	for _, from := range copyindex.Of(c.Copies, copyindex.ObjectOf(to)) {
		v := from.Status.Volume
		if from.Spec.PhysicalCluster == entry.Volume.From && from.Spec.Object.UID == claim.UID && v != nil && v.Released && v.Helper != nil && v.Helper.Ready {
			return from
		}
	}
	return nil
}

func (c *Controller) begin(cluster logicalcluster.Name) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copying[cluster] >= maxOfCluster {
		return false
	}
	c.copying[cluster]++
	return true
}

func (c *Controller) end(cluster logicalcluster.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copying[cluster]--; c.copying[cluster] == 0 {
		delete(c.copying, cluster)
	}
}

// attempt passes all data on once. How it ends is said on the Copy, and tells nobody else anything.
func (c *Controller) attempt(ctx context.Context, key controller.Request, claim *metav1.PartialObjectMetadata, from, to *placementv1alpha1.Copy) {
	logger := klog.FromContext(ctx).WithValues("from", from.Spec.PhysicalCluster, "to", to.Spec.PhysicalCluster)
	filler, err := c.dial(ctx, key, to)
	if err != nil {
		logger.V(2).Info("Cannot connect to the pod that fills a volume", "err", err)
		c.report(ctx, key, progress{from: from.Spec.PhysicalCluster, ended: "on " + to.Spec.PhysicalCluster + ": " + err.Error()})
		return
	}
	defer filler.Close()
	logger.Info("Copying the data of a volume", "claim", claim.Name)
	p := passing{
		filler: filler, limit: c.limit(from, to),
		source: func(ctx context.Context) (net.Conn, error) { return c.dial(ctx, key, from) },
		report: func(p progress) { p.from = from.Spec.PhysicalCluster; c.report(ctx, key, p) },
	}
	if err := p.run(ctx); err != nil {
		logger.Info("The data of a volume were not copied to their end", "claim", claim.Name, "err", err)
		return
	}
	logger.Info("Copied the data of a volume", "claim", claim.Name)
}

// dial connects to the pod of a Copy, which proves there that it is this one.
func (c *Controller) dial(ctx context.Context, key controller.Request, to *placementv1alpha1.Copy) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	target, err := c.Reach(ctx, to.Spec.PhysicalCluster)
	if err != nil {
		return nil, err
	}
	helper := to.Status.Volume.Helper
	return reach.Forward(ctx, target.Link, reach.Call{Pod: reach.Pod{
		PhysicalCluster: target.UID, ControlPlane: target.ControlPlane, Namespace: to.Status.PhysicalNamespace, Name: helper.Name, UID: helper.UID,
		LogicalCluster: key.Cluster, LogicalNamespace: key.Namespace,
	}}, syncer.HelperPort)
}

// limit is how much is copied at most: what either end permits.
func (c *Controller) limit(ends ...*placementv1alpha1.Copy) int64 {
	limit := int64(0)
	for _, end := range ends {
		pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: end.Spec.PhysicalCluster})
		if !ok {
			return 0
		}
		most := int64(0)
		for _, class := range pc.Spec.Volumes {
			if class.Copy != nil {
				most = max(most, class.Copy.MaxBytes.Value()) // the pods know which class it is
			}
		}
		if limit == 0 || most < limit {
			limit = most
		}
	}
	return limit
}

// report says on the Copy how far it is.
func (c *Controller) report(ctx context.Context, key controller.Request, p progress) {
	copies := c.Client.PlacementV1alpha1().Copies(key.Namespace)
	to, err := copies.Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return // it goes, or it is said the next time
	}
	t := placementv1alpha1.CopyTransfer{}
	if to.Status.Transfer != nil && to.Status.Transfer.From == p.from {
		t = *to.Status.Transfer
	}
	t.From, t.Bytes = p.from, p.bytes
	if p.begins {
		t.Attempts++
	}
	if p.ended != "" {
		t.Message = p.ended
	}
	if to.Status.Transfer != nil && *to.Status.Transfer == t {
		return
	}
	to.Status.Transfer = &t
	if _, err := copies.Update(ctx, to, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Cannot say how far a copy is", "err", err)
	}
}
