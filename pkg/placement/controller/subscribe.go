package controller

import (
	"maps"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// subscribe turns events into namespaces to look at.
func (c *Controller) subscribe() {
	c.Placements.Handle(func(old, new *placementv1alpha1.Placement) {
		if c.moves.observe(old, new, c.Clock.Now(), c.Placements.Watches()) {
			c.wake()
		}
	})
	c.Placements.Handle(c.placementChanged)
	c.Placements.Handle(c.othersLook)
	c.Namespaces.Handle(func(old, new *corev1.Namespace) {
		if new == nil || old != nil && old.ResourceVersion == new.ResourceVersion {
			return
		}
		c.enqueueIn(controller.RequestFor(new).Cluster, new.Name, 0)
	})
	c.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if new != nil && (old == nil || mayChangeDecisions(old, new)) {
			c.retryAll()
		}
		if new != nil && (old == nil || mayChangeMore(old, new)) {
			c.enqueueCluster(scope.Root) // it may be bootstrapped now
		}
		if old != nil && new != nil && meta.IsStatusConditionTrue(old.Status.Conditions, fleetv1alpha1.ConditionReady) != meta.IsStatusConditionTrue(new.Status.Conditions, fleetv1alpha1.ConditionReady) {
			c.lookAt(new.Name) // what moves there may go on, or must not
		}
	})
	c.subscribePolicies()
	c.Copies.Handle(func(old, new *placementv1alpha1.Copy) {
		switch {
		case new == nil:
			c.enqueueUnits(old, batchDelay)
		case c.moves.in(controller.RequestFor(new)), c.rolling(controller.RequestFor(new)):
			c.enqueueUnits(new, batchDelay) // what its copies report decides
		case old == nil || old.Status.State != new.Status.State || old.Status.Message != new.Status.Message || old.Spec != new.Spec,
			!apiequality.Semantic.DeepEqual(old.Status.Volume, new.Status.Volume): // others may wait for it
			c.enqueueUnits(new, batchDelay)
		}
	})
	c.subscribeEndpoints()
	c.later = placed.Follow(c.Kinds, c.Objects, func(kind workload.Kind, old, new *metav1.PartialObjectMetadata) {
		switch {
		case kind.Role == workload.Container:
		case kind.Addressed() && new != nil && c.moves.in(controller.RequestFor(new)): // its addresses decide
			c.enqueueUnits(new, batchDelay)
		default:
			c.observe(old, new)
		}
	})
}

// subscribeEndpoints looks at what moves when other endpoints are ready: that decides.
func (c *Controller) subscribeEndpoints() {
	informer := c.Objects.For(endpointSlices)
	if informer == nil {
		return
	}
	informer.Handle(func(_, new *metav1.PartialObjectMetadata) {
		if new != nil && c.moves.in(controller.RequestFor(new)) {
			c.enqueueUnits(new, batchDelay)
		}
	})
}

// observe looks at a namespace again when an object comes, goes or gets other
// targets.
func (c *Controller) observe(old, new *metav1.PartialObjectMetadata) {
	switch {
	case new == nil:
		c.enqueueUnits(old, batchDelay)
	case old == nil || old.UID != new.UID || !stamp.SameTargets(old, new) || stamp.Revision(old) != stamp.Revision(new) || c.mayChangeUnit(old, new) || c.mayChangeShares(old, new):
		c.enqueueUnits(new, batchDelay)
	}
}

// mayChangeShares says that an object may want another number of replicas, which are divided.
func (c *Controller) mayChangeShares(old, new *metav1.PartialObjectMetadata) bool {
	if old.Generation == new.Generation {
		return false
	}
	key := controller.RequestFor(new)
	return slices.ContainsFunc(c.Placements.ListNamespace(key.Cluster, key.Namespace), func(p *placementv1alpha1.Placement) bool {
		return stamp.DivisionOf(p) != nil
	})
}

// mayChangeUnit says that an object, or what follows it, may be in another unit now. Where
// there are no policies, there is one unit.
func (c *Controller) mayChangeUnit(old, new *metav1.PartialObjectMetadata) bool {
	if old.Generation == new.Generation && maps.Equal(old.Labels, new.Labels) {
		return false
	}
	key := controller.RequestFor(new)
	return c.NamespacePolicies.HasNamespace(key.Cluster, key.Namespace)
}

// enqueueUnits looks at all units of the namespace of an object: only a look says to which
// it belongs.
func (c *Controller) enqueueUnits(o metav1.Object, after time.Duration) {
	key := controller.RequestFor(o)
	c.enqueueIn(key.Cluster, key.Namespace, after)
}

func (c *Controller) enqueueIn(cluster logicalcluster.Name, namespace string, after time.Duration) {
	for _, p := range c.Placements.ListNamespace(cluster, namespace) {
		c.queue.EnqueueAfter(controller.RequestFor(p), after)
	}
}

// placementChanged looks at a unit. When one is decided, another one that fits nowhere yet is tried in its place.
func (c *Controller) placementChanged(old, new *placementv1alpha1.Placement) {
	switch {
	case new == nil:
		c.queue.Enqueue(controller.RequestFor(old)) // what is remembered of it goes
	case new.Spec.Decision == nil:
		c.queue.Enqueue(controller.RequestFor(new))
	default: // admission, which has just decided, is still writing
		c.queue.EnqueueAfter(controller.RequestFor(new), batchDelay)
		if old == nil || old.Spec.Decision != nil {
			break
		}
		if next, ok := c.retries.placed(logicalcluster.From(new), c.Clock.Now()); ok {
			c.queue.Enqueue(next)
		}
	}
}

// othersLook looks at the other units of a namespace when one comes, goes or goes
// elsewhere: the Namespace and what follows objects is in several.
func (c *Controller) othersLook(old, new *placementv1alpha1.Placement) {
	one := new
	if one == nil {
		one = old
	}
	key := controller.RequestFor(one)
	if c.Placements.CountNamespace(key.Cluster, key.Namespace) < 2 && key.Name == placementv1alpha1.NamespaceUnit ||
		old != nil && new != nil && old.Generation == new.Generation {
		return
	}
	c.enqueueIn(key.Cluster, key.Namespace, batchDelay)
}

func (c *Controller) enqueueCluster(cluster logicalcluster.Name) {
	for _, p := range c.Placements.ListCluster(cluster) {
		c.queue.Enqueue(controller.RequestFor(p))
	}
}

const (
	// undecidedIndex finds the Placements that are not decided: all, and by their logical cluster.
	undecidedIndex = "placements.undecided"
	// onIndex finds those that are decided, by each physical cluster.
	onIndex = "placements.on"
)

// Indexers are the indexers that the informer of Placements must have.
func Indexers() map[string]func(*placementv1alpha1.Placement) []string {
	return map[string]func(*placementv1alpha1.Placement) []string{
		undecidedIndex: func(p *placementv1alpha1.Placement) []string {
			if p.Spec.Decision != nil {
				return nil
			}
			return []string{"", logicalcluster.From(p).String()}
		},
		onIndex: func(p *placementv1alpha1.Placement) []string { return stamp.Decided(p).Names() },
	}
}

// retryAll looks at every undecided namespace, see retries. Each report of each physical cluster has it done, so it
// must not look through what is decided.
func (c *Controller) retryAll() {
	now := c.Clock.Now()
	c.retries.forget(now)
	for p := range c.Placements.AllByIndex(undecidedIndex, "") {
		key := controller.RequestFor(p)
		if delay, ok := c.retries.after(key, now); ok {
			c.queue.EnqueueAfter(key, delay)
		}
	}
}

// mayChangeDecisions tells a heartbeat from news.
func mayChangeDecisions(old, new *fleetv1alpha1.PhysicalCluster) bool {
	return mayChangeMore(old, new) ||
		!apiequality.Semantic.DeepEqual(old.Status.Allocatable, new.Status.Allocatable) || !apiequality.Semantic.DeepEqual(old.Status.Requested, new.Status.Requested)
}

// mayChangeMore tells a report of how much is free from other news: it comes with each pod.
func mayChangeMore(old, new *fleetv1alpha1.PhysicalCluster) bool {
	return old.Generation != new.Generation || !maps.Equal(old.Labels, new.Labels) || !apiequality.Semantic.DeepEqual(news(old), news(new))
}

// news is what a physical cluster reports, without how much is free, and without times.
func news(c *fleetv1alpha1.PhysicalCluster) *fleetv1alpha1.PhysicalClusterStatus {
	s := c.Status
	s.Allocatable, s.Requested, s.Conditions = nil, nil, slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i] = metav1.Condition{Type: s.Conditions[i].Type, Status: s.Conditions[i].Status}
	}
	return &s
}
