package controller

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// subscribe turns events into namespaces to look at.
func (c *Controller) subscribe() {
	c.Placements.Handle(c.moves.observe)
	c.Placements.Handle(func(_, new *placementv1alpha1.Placement) {
		switch {
		case new == nil:
		case new.Spec.Decision == nil:
			c.queue.Enqueue(keyOf(new))
		default: // admission, which has just decided, is still writing
			c.queue.EnqueueAfter(keyOf(new), batchDelay)
		}
	})
	c.Namespaces.Handle(func(old, new *corev1.Namespace) {
		if new == nil || old != nil && old.ResourceVersion == new.ResourceVersion {
			return
		}
		c.queue.Enqueue(controller.Request{Cluster: controller.RequestFor(new).Cluster, Namespace: new.Name, Name: placementv1alpha1.NamespaceUnit})
	})
	c.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if new != nil && (old == nil || mayChangeDecisions(old, new)) {
			c.retryAll()
		}
	})
	c.subscribePolicies()
	c.Copies.Handle(func(old, new *placementv1alpha1.Copy) {
		switch {
		case new == nil:
			c.queue.EnqueueAfter(keyOf(old), batchDelay)
		case c.moves.has(keyOf(new)):
			c.queue.EnqueueAfter(keyOf(new), batchDelay) // what its copies report decides
		case old == nil || old.Status.State != new.Status.State || old.Status.Message != new.Status.Message || old.Spec != new.Spec:
			c.queue.EnqueueAfter(keyOf(new), batchDelay)
		}
	})
	for _, kind := range c.Kinds.Current().Kinds() {
		if informer := c.Objects.For(kind.GroupVersionResource()); informer != nil && kind.Role != workload.Container {
			informer.Handle(c.observe)
		}
	}
}

// observe looks at a namespace again when an object comes, goes or gets other
// targets.
func (c *Controller) observe(old, new *metav1.PartialObjectMetadata) {
	switch {
	case new == nil:
		c.queue.EnqueueAfter(keyOf(old), batchDelay)
	case old == nil || old.UID != new.UID || !stamp.SameTargets(old, new):
		c.queue.EnqueueAfter(keyOf(new), batchDelay)
	}
}

// keyOf is the unit that an object of a namespace belongs to.
func keyOf(o metav1.Object) controller.Request {
	key := controller.RequestFor(o)
	key.Name = placementv1alpha1.NamespaceUnit
	return key
}

// retryAll looks at every undecided namespace.
func (c *Controller) retryAll() {
	for _, p := range c.Placements.List() {
		if p.Spec.Decision == nil {
			c.queue.Enqueue(keyOf(p))
		}
	}
}

// mayChangeDecisions tells a heartbeat from news.
func mayChangeDecisions(old, new *fleetv1alpha1.PhysicalCluster) bool {
	if old.Generation != new.Generation || !maps.Equal(old.Labels, new.Labels) {
		return true
	}
	a, b := old.Status.DeepCopy(), new.Status.DeepCopy()
	for _, s := range []*fleetv1alpha1.PhysicalClusterStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i] = metav1.Condition{Type: s.Conditions[i].Type, Status: s.Conditions[i].Status}
		}
	}
	return !apiequality.Semantic.DeepEqual(a, b)
}
