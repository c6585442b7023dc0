package controller

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// settleDelay is how long a decision must have been other than the policies want before
// its status says so: an informer may not have the policy yet that the decision was made
// by, and who edits several writes one after the other.
const settleDelay = 2 * time.Second

// rootInterval is how often it is asked where units of root may go, or may leave now.
const rootInterval = 10 * time.Second

// verdict is whether the decision is what the policies of now permit.
type verdict struct {
	placement.Verdict
	// condition says so; nil as long as that is not certain.
	condition *metav1.Condition
	// again is when to look again: to be certain, or when a time is over.
	again time.Duration
	// last are the physical clusters that a unit of root leaves once everything else has.
	last []string
}

// verify compares the decision with what the policies of now permit.
func (c *Controller) verify(u *unit) verdict {
	if u.namespace.DeletionTimestamp != nil {
		return verdict{Verdict: placement.Verdict{Satisfied: true}}
	}
	s, asked := c.snapshot(u)
	v := verdict{}
	if u.key.Cluster == scope.Root {
		v.last = c.leaveLast(&s, asked.Decided)
	}
	v.Verdict = placement.Verify(s, asked)
	now := c.Clock.Now()
	condition := &metav1.Condition{
		Type: placementv1alpha1.ConditionPolicySatisfied, Status: metav1.ConditionTrue, Reason: v.Reason, Message: v.Message,
		ObservedGeneration: u.placement.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if v.Satisfied {
		c.unsatisfied.end(u.key)
		v.condition = condition
		if u.key.Cluster == scope.Root { // also for what comes to be with others, see leaveLast
			v.again = rootInterval
		}
		if !v.Until.IsZero() {
			v.again = max(v.Until.Sub(now), time.Millisecond)
		}
		return v
	}
	if v.again = c.unsatisfied.since(u.key, now).Add(settleDelay).Sub(now); v.again > 0 {
		return v
	}
	v.again, condition.Status = 0, metav1.ConditionFalse
	v.condition = condition
	return v
}

// snapshot has the physical clusters of the decision; all only if a policy compares
// with where others are.
func (c *Controller) snapshot(u *unit) (placement.Snapshot, placement.Unit) {
	return c.snapshotAt(u, stamp.Decided(u.placement).Names())
}

// snapshotAt is snapshot, as if the unit were decided for these.
func (c *Controller) snapshotAt(u *unit, decided []string) (placement.Snapshot, placement.Unit) {
	asked := placement.Unit{
		Name: u.key.Name, LogicalCluster: u.key.Cluster, Namespace: u.key.Namespace, NamespaceLabels: u.namespace.Labels,
		Pin: c.pinOf(u), Decided: decided,
	}
	asked.Bound, asked.BoundBy = placement.BoundOf(u.placement)
	if lc, ok := c.LogicalClusters.Get(controller.Request{Cluster: scope.Root, Name: u.key.Cluster.String()}); ok {
		asked.LogicalClusterLabels = lc.Labels
	}
	s := placement.Snapshot{Policies: c.policiesOf(u.key), Now: c.Clock.Now(), Watched: c.watchedSince()}
	if u.key.Cluster != scope.Root && !placement.NeedsOthers(s.Policies, asked) {
		for _, name := range asked.Decided {
			if pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name}); ok {
				s.PhysicalClusters = append(s.PhysicalClusters, placement.PhysicalCluster{PhysicalCluster: pc})
				s.CutOff = s.CutOff || !placement.SilentSince(pc).IsZero() && placement.CutOff(c.PhysicalClusters.List())
			}
		}
		return s, asked
	}
	s.CutOff = placement.CutOff(c.PhysicalClusters.List())
	for _, pc := range c.PhysicalClusters.List() {
		s.PhysicalClusters = append(s.PhysicalClusters, placement.PhysicalCluster{PhysicalCluster: pc})
	}
	for _, p := range c.Placements.ListCluster(u.key.Cluster) {
		other, ok := c.Namespaces.Get(controller.Request{Cluster: u.key.Cluster, Name: p.Namespace})
		if on := stamp.Decided(p).Names(); ok && p.Namespace != u.key.Namespace && len(on) > 0 && stamp.BelongsTo(p, other.UID) {
			asked.Others = append(asked.Others, placement.Other{Labels: other.Labels, PhysicalClusters: on})
		}
	}
	return s, asked
}

// leaveLast has a unit of root stay on physical clusters that are drained, or removed, until all others have left
// them, which may need it there; it says which these are.
func (c *Controller) leaveLast(s *placement.Snapshot, decided []string) (last []string) {
	for i, pc := range s.PhysicalClusters {
		leaves := placement.Drains(pc.PhysicalCluster, c.Clock.Now()) || pc.DeletionTimestamp != nil
		if !leaves || !slices.ContainsFunc(c.Placements.List(), func(p *placementv1alpha1.Placement) bool {
			_, on := stamp.PartOn(p, pc.Name)
			return on && logicalcluster.From(p) != scope.Root
		}) {
			continue
		}
		if slices.Contains(decided, pc.Name) {
			last = append(last, pc.Name)
		}
		kept := pc.PhysicalCluster.DeepCopy()
		kept.Spec.Drain, kept.Spec.Unschedulable, kept.DeletionTimestamp = fleetv1alpha1.Drain{}, true, nil
		s.PhysicalClusters[i].PhysicalCluster = kept
	}
	return last
}

// pinOf is where a user wants a unit.
func (c *Controller) pinOf(u *unit) string {
	if u.key.Name == placementv1alpha1.NamespaceUnit {
		return placement.PinOf(u.key.Name, u.namespace, nil)
	}
	policy, ok := c.NamespacePolicies.Get(u.key)
	if !ok {
		return ""
	}
	return placement.PinOf(u.key.Name, u.namespace, []placement.Policy{placement.InNamespace(policy)})
}

// policiesOf are those of all levels, as many as a decision reads.
func (c *Controller) policiesOf(key controller.Request) []placement.Policy {
	return placement.Policies(c.Policies.ListCluster(scope.Root), c.Policies.ListCluster(key.Cluster), c.NamespacePolicies.ListNamespace(key.Cluster, key.Namespace))
}

// subscribePolicies looks again at the namespaces that a policy, a label or a taint is
// about: the undecided may be placed now, of the others the status may change.
func (c *Controller) subscribePolicies() {
	c.Policies.Handle(func(old, new *placementv1alpha1.ClusterPlacementPolicy) {
		if old == nil || new == nil || old.Generation != new.Generation {
			c.lookAgain(controller.RequestFor(cmp.Or(new, old)).Cluster)
		}
	})
	c.NamespacePolicies.Handle(func(old, new *placementv1alpha1.PlacementPolicy) {
		if old == nil || new == nil || old.Generation != new.Generation || pinned(old) != pinned(new) {
			c.enqueueUnits(cmp.Or(new, old), 0)
		}
	})
	c.LogicalClusters.Handle(func(old, new *tenancyv1alpha1.LogicalCluster) {
		if old != nil && new != nil && !maps.Equal(old.Labels, new.Labels) {
			c.lookAgain(logicalcluster.Name(new.Name))
		}
	})
	c.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if old != nil && (new == nil || !maps.Equal(old.Labels, new.Labels) || !sameTaints(old.Spec.Taints, new.Spec.Taints) || !apiequality.Semantic.DeepEqual(old.Spec.Drain, new.Spec.Drain) || old.Spec.Forget != new.Spec.Forget) {
			c.lookAt(old.Name)
		}
		if old != nil && new != nil && !apiequality.Semantic.DeepEqual(old.Spec.Bounds, new.Spec.Bounds) {
			c.lookAt(old.Name) // what is there is weighed where it is bounded
		}
		c.silenceChanged(old, new)
	})
}

// silenceChanged looks at the units on a physical cluster that has fallen silent, is back, or is given up. Whether silence
// counts depends on how many are: the units on all that are silent are looked at when that changes, and not with each, as a
// thousand may fall silent together.
func (c *Controller) silenceChanged(old, new *fleetv1alpha1.PhysicalCluster) {
	if old != nil && new != nil {
		if placement.SilentSince(old).Equal(placement.SilentSince(new)) && old.Spec.Forget == new.Spec.Forget {
			return
		}
		c.lookAt(new.Name)
	}
	if cutOff := placement.CutOff(c.PhysicalClusters.List()); cutOff != c.cutOff {
		c.cutOff = cutOff
		c.lookAtSilent()
	}
}

// pinned is what a policy says by annotations.
func pinned(p *placementv1alpha1.PlacementPolicy) string {
	return p.Annotations[placementv1alpha1.PhysicalClusterAnnotation] + " " + p.Annotations[placementv1alpha1.ApproveRolloutAnnotation]
}

// lookAtSilent looks at all namespaces that are on a physical cluster that does not answer.
func (c *Controller) lookAtSilent() {
	for _, pc := range c.PhysicalClusters.List() {
		if !placement.SilentSince(pc).IsZero() {
			c.lookAt(pc.Name)
		}
	}
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool { return apiequality.Semantic.DeepEqual(x, y) })
}

// lookAgain looks at all namespaces with a placement that a policy of a logical cluster
// is about.
func (c *Controller) lookAgain(cluster logicalcluster.Name) {
	list := c.Placements.ListCluster(cluster)
	if cluster == scope.Root {
		list = c.Placements.List()
	}
	for _, p := range list {
		c.queue.Enqueue(controller.RequestFor(p))
	}
}

// lookAt looks at all namespaces that are on a physical cluster.
func (c *Controller) lookAt(physicalCluster string) {
	for p := range c.Placements.AllByIndex(onIndex, physicalCluster) {
		c.queue.Enqueue(controller.RequestFor(p))
	}
}
