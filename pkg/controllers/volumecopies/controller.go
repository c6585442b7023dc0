package volumecopies

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	// maxCopies is how many volumes are copied at a time by a server, maxOfCluster how many of one
	// logical cluster, and maxOfPhysicalCluster how many from one physical cluster, and to one: each may be
	// as slow as it likes.
	maxCopies            = 8
	maxOfCluster         = 3
	maxOfPhysicalCluster = 4
	// retryInterval is when to begin again after an attempt that ended, twice as late after each that
	// follows up to maxRetryInterval: each reads all that there is. It is also when to look again if there is no room.
	retryInterval    = 5 * time.Second
	maxRetryInterval = 5 * time.Minute
	// saidInterval is when to look again after an attempt that came to its end: the pod says the rest.
	saidInterval = time.Minute
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
	// copying counts copies by what they use.
	copying map[use]int
	// failed counts the attempts that ended one after the other before their end.
	failed map[controller.Request]int
}

// use is something that a copy uses, of which one copy after the other would leave nothing for others.
type use struct {
	logical      logicalcluster.Name
	physical, as string
}

// New makes the controller.
func New(config Config) *Controller {
	c := &Controller{Config: config, copying: map[use]int{}, failed: map[controller.Request]int{}}
	c.queue = controller.New("volumecopies", maxCopies, c.reconcile)
	config.Copies.Handle(func(last, next *placementv1alpha1.Copy) {
		if begins(last, next) {
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

// begins says that a pod may be there that was not before. What is said here of how far a copy is tells
// nothing new.
func begins(last, next *placementv1alpha1.Copy) bool {
	if next == nil || next.Status.Volume == nil || next.Status.Volume.Helper == nil {
		return false
	}
	return last == nil || !equality.Semantic.DeepEqual(last.Status.Volume, next.Status.Volume)
}

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
		c.ended(key, nil)
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
	uses := map[use]int{
		{logical: key.Cluster}: maxOfCluster,
		{physical: from.Spec.PhysicalCluster, as: "where data are"}: maxOfPhysicalCluster,
		{physical: to.Spec.PhysicalCluster, as: "where data go"}:    maxOfPhysicalCluster,
	}
	if !c.begin(uses) {
		return controller.Result{RequeueAfter: retryInterval}, nil
	}
	defer c.end(uses)
	return controller.Result{RequeueAfter: c.ended(key, c.attempt(ctx, key, claim, from, to))}, nil
}

// ended notes how an attempt ended, and says when to look again.
func (c *Controller) ended(key controller.Request, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, key)
		return saidInterval
	}
	c.failed[key]++
	return min(retryInterval<<min(c.failed[key]-1, 10), maxRetryInterval)
}

// source is the Copy whose data are copied into to; nil if none are now.
func (c *Controller) source(claim *metav1.PartialObjectMetadata, to *placementv1alpha1.Copy) *placementv1alpha1.Copy {
	targets := stamp.TargetsOf(claim.Annotations)
	entry, ok := targets[to.Spec.PhysicalCluster]
	if !ok || !entry.Keeps() || entry.Volume == nil || !entry.Volume.Copied || entry.Volume.Snapshot != nil || claim.UID != to.Spec.Object.UID {
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

// begin takes one of each of what a copy uses, if none of them is used up.
func (c *Controller) begin(uses map[use]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for u, most := range uses {
		if c.copying[u] >= most {
			return false
		}
	}
	for u := range uses {
		c.copying[u]++
	}
	return true
}

func (c *Controller) end(uses map[use]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for u := range uses {
		if c.copying[u]--; c.copying[u] == 0 {
			delete(c.copying, u)
		}
	}
}

// attempt passes all data on once. How it ends is said on the Copy, and tells nobody else anything.
func (c *Controller) attempt(ctx context.Context, key controller.Request, claim *metav1.PartialObjectMetadata, from, to *placementv1alpha1.Copy) error {
	logger := klog.FromContext(ctx).WithValues("from", from.Spec.PhysicalCluster, "to", to.Spec.PhysicalCluster)
	filler, err := c.dial(ctx, key, to)
	if err != nil {
		logger.V(2).Info("Cannot connect to the pod that fills a volume", "err", err)
		c.report(ctx, key, progress{from: from.Spec.PhysicalCluster, ended: bounded("on " + to.Spec.PhysicalCluster + ": " + err.Error())})
		return err
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
		return err
	}
	logger.Info("Copied the data of a volume", "claim", claim.Name)
	return nil
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
	t.From = p.from
	if p.begins || p.bytes > 0 { // one that was not taken has said nothing of how far another one is
		t.Bytes = p.bytes
	}
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
