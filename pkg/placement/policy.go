package placement

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Policy is a policy of any level.
type Policy struct {
	placementv1alpha1.PolicyReference
	// The selectors are absent where the level has none.
	LogicalClusterSelector, NamespaceSelector *metav1.LabelSelector
	Rules                                     *placementv1alpha1.PolicyRules
	// Unit is the unit that a policy of a namespace makes of what it selects; empty: it is
	// for what no policy selects. Pin is where a user wants that unit.
	Unit, Pin string
	// ConfirmAbove is how many of the units that it selects an edit may move, see Radius.
	ConfirmAbove *int32
	// MaxMoving is how many of them move at a time, see Bounding.
	MaxMoving *int32
	// Unreadable says why the policy cannot be honoured. It permits nothing.
	Unreadable string
}

// Global is a policy of "root".
func Global(p *placementv1alpha1.ClusterPlacementPolicy) Policy {
	return ofCluster(p, placementv1alpha1.PolicyGlobal)
}

// Local is a policy of the unit's own logical cluster.
func Local(p *placementv1alpha1.ClusterPlacementPolicy) Policy {
	out := ofCluster(p, placementv1alpha1.PolicyLogicalCluster)
	out.LogicalClusterSelector = nil
	return out
}

func ofCluster(p *placementv1alpha1.ClusterPlacementPolicy, level placementv1alpha1.PolicyLevel) Policy {
	return Policy{
		PolicyReference:        placementv1alpha1.PolicyReference{Level: level, Name: p.Name, Generation: p.Generation},
		LogicalClusterSelector: p.Spec.LogicalClusterSelector, NamespaceSelector: p.Spec.NamespaceSelector, ConfirmAbove: p.Spec.ConfirmAbove, MaxMoving: p.Spec.MaxMoving, Rules: &p.Spec.PolicyRules,
	}
}

// InNamespace is a policy of the unit's own namespace.
func InNamespace(p *placementv1alpha1.PlacementPolicy) Policy {
	out := Policy{
		PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyNamespace, Name: p.Name, Generation: p.Generation},
		Rules:           &p.Spec.PolicyRules,
	}
	if p.Spec.Objects != nil {
		out.Unit, out.Pin = p.Name, p.Annotations[placementv1alpha1.PhysicalClusterAnnotation]
	}
	return out
}

// PinOf is where a user wants a unit: what the Namespace says, or the policy that makes
// the unit.
func PinOf(unit string, namespace metav1.Object, policies []Policy) string {
	if unit == placementv1alpha1.NamespaceUnit {
		return namespace.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation]
	}
	for _, p := range policies {
		if p.Unit == unit {
			return p.Pin
		}
	}
	return ""
}

// TooMany is in the place of the policies of a level of which there are more than
// are read.
func TooMany(level placementv1alpha1.PolicyLevel) Policy {
	return Policy{
		PolicyReference: placementv1alpha1.PolicyReference{Level: level, Name: "*"}, Rules: &placementv1alpha1.PolicyRules{},
		Unreadable: "there are too many; delete some",
	}
}

// Policies are those of all levels that are heard. A tenant cannot make others wait with
// many: if there are more than are read, nothing is placed until some are deleted.
func Policies(global, local []*placementv1alpha1.ClusterPlacementPolicy, own []*placementv1alpha1.PlacementPolicy) []Policy {
	out := make([]Policy, 0, len(global)+len(local)+len(own))
	for _, p := range global {
		out = append(out, Global(p))
	}
	if len(local) > MaxPolicies {
		return append(out, TooMany(placementv1alpha1.PolicyLogicalCluster))
	}
	for _, p := range local {
		out = append(out, Local(p))
	}
	if len(own) > MaxPolicies {
		return append(out, TooMany(placementv1alpha1.PolicyNamespace))
	}
	for _, p := range own {
		out = append(out, InNamespace(p))
	}
	return out
}

// MaxPolicies is how many policies of one logical cluster, and of one namespace, are
// read for a decision. Those of "root" are the admin's: they have no such bound.
const MaxPolicies = 32

// Bounding are the policies for a unit that say how many of theirs move at a time. One that
// cannot be read is for all: it holds up rather than lets go.
func Bounding(policies []Policy, u Unit) []Policy {
	var out []Policy
	for _, p := range policies {
		if p.MaxMoving == nil {
			continue
		}
		if selects, err := p.selects(u); selects || err != nil {
			out = append(out, p)
		}
	}
	return out
}

// rank of a level, the most specific first.
func rank(level placementv1alpha1.PolicyLevel) int {
	switch level {
	case placementv1alpha1.PolicyNamespace:
		return 0
	case placementv1alpha1.PolicyLogicalCluster:
		return 1
	}
	return 2
}

// String names a policy for people.
func (p Policy) String() string {
	switch p.Level {
	case placementv1alpha1.PolicyNamespace:
		return "policy " + p.Name + " of the namespace"
	case placementv1alpha1.PolicyLogicalCluster:
		return "policy " + p.Name + " of the logical cluster"
	}
	return "policy " + p.Name
}

// rules is what the policies that select a unit come to.
type rules struct {
	unit Unit
	// whole is what all replicas of the unit request; unit has what one physical cluster gets at most.
	whole  corev1.ResourceList
	shape  shape
	order  order
	refuse bool
	move   placementv1alpha1.MoveRules
	// scheduler is the one that the first policy names which names one; shaped says that a
	// policy says how many.
	scheduler string
	shaped    bool
	// replicas is how they are divided.
	replicas replicas
	// overrides are those of all policies, the most specific level first.
	overrides []overrideOf
	// waves are those in which changes reach them.
	waves waves
	// most is the least maxCount, and limits the policy that has it; 0: none has.
	most      int
	limits    string
	heard     []placementv1alpha1.PolicyReference
	fences    []fence
	relations []relation
	// requested are the names of what it requests, needed the classes that it needs.
	requested []corev1.ResourceName
	needed    []class
	// nowhere are those that no physical cluster has.
	nowhere []class
	// now, watched and cutOff are those of the snapshot.
	now, watched time.Time
	cutOff       bool
	// stay is how long all that is decided may stay.
	stay stay
	// tolerations of each level, by its rank.
	tolerations [3][]corev1.Toleration
}

// newRules are those of a unit for which there is no policy.
func newRules(u Unit) *rules {
	wanted := shape{count: 1, least: 1}
	if u.LogicalCluster == scope.Root {
		wanted = shape{count: everywhere, least: 1}
	}
	return &rules{unit: u, whole: u.Requests, shape: wanted, requested: sortedNames(u.Requests), needed: u.classes()}
}

// fence is what one policy permits: physical clusters that one of the terms
// selects. A policy that cannot be read permits none.
type fence struct {
	name  string
	terms []labels.Selector
	err   error
}

// compile reads the policies that select a unit, the most specific level first, by
// name.
func compile(s Snapshot, u Unit) *rules {
	r := newRules(u)
	r.nowhere, r.now, r.watched, r.cutOff = nowhere(s, u), s.Now, s.Watched, s.CutOff
	policies := slices.Clone(s.Policies)
	slices.SortFunc(policies, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(rank(a.Level), rank(b.Level)), cmp.Compare(a.Name, b.Name))
	})
	var ordered, divided, answered, moves, staged bool
	for _, p := range policies {
		selects, err := p.selects(u)
		if err == nil && !selects {
			continue
		}
		r.heard = append(r.heard, p.PolicyReference)
		err = errors.Join(err, r.constrain(p, s))
		r.overrides = append(r.overrides, overridesOf(p)...)
		if !r.shaped {
			r.shape, r.shaped = newShape(p, r.shape)
		}
		r.scheduler = cmp.Or(r.scheduler, p.Rules.SchedulerName)
		if !ordered {
			var orderErr error
			r.order, ordered, orderErr = newOrder(p)
			err = errors.Join(err, orderErr)
		}
		if !divided {
			var replicasErr error
			r.replicas, divided, replicasErr = newReplicas(p)
			err = errors.Join(err, replicasErr)
		}
		if !staged {
			var wavesErr error
			r.waves, staged, wavesErr = newWaves(p)
			err = errors.Join(err, wavesErr)
		}
		if p.Rules.IfImpossible != "" && !answered {
			r.refuse, answered = p.Rules.IfImpossible == placementv1alpha1.ImpossibleRefuse, true
		}
		if p.Rules.Move != nil && !moves {
			r.move, moves = *p.Rules.Move, true
		}
		r.fences = append(r.fences, newFence(p, err))
	}
	if r.replicas.by != "" && r.unit.Pin == "" {
		r.unit.Requests = ofShare(r.whole, r.shape.least)
	}
	return r
}

// constrain adds the constraints of a policy, which hold beside all others; save the
// terms, see newFence.
func (r *rules) constrain(p Policy, s Snapshot) error {
	at := rank(p.Level)
	r.tolerations[at] = append(r.tolerations[at], p.Rules.Tolerations...)
	if m := p.Rules.MaxCount; m != nil && (r.most == 0 || int(*m) < r.most) {
		r.most, r.limits = max(1, int(*m)), p.String()
	}
	for _, a := range p.Rules.Affinity {
		related, err := newRelation(p, a, s, r.unit)
		if err != nil {
			return err
		}
		r.relations = append(r.relations, related)
	}
	return nil
}

func newFence(p Policy, err error) fence {
	f := fence{name: p.String(), err: err}
	if p.Unreadable != "" {
		f.err = errors.New(p.Unreadable)
	}
	for _, t := range p.Rules.Terms {
		s, err := selector(t)
		if err != nil {
			f.err = err
			break
		}
		f.terms = append(f.terms, s)
	}
	return f
}

// selects says that a policy is for a unit. Of its namespace a unit hears the policy that
// makes it, and no other; that there are too many is for all.
func (p Policy) selects(u Unit) (bool, error) {
	own := u.Name
	if own == placementv1alpha1.NamespaceUnit {
		own = ""
	}
	if p.Level == placementv1alpha1.PolicyNamespace && p.Unreadable == "" && p.Unit != own {
		return false, nil
	}
	for _, s := range []struct {
		selector *metav1.LabelSelector
		labels   labels.Set
	}{
		{p.LogicalClusterSelector, u.LogicalClusterLabels},
		{p.NamespaceSelector, u.NamespaceLabels},
	} {
		if s.selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(s.selector)
		if err != nil {
			return false, err
		}
		if !selector.Matches(s.labels) {
			return false, nil
		}
	}
	return true, nil
}
