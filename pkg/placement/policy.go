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
)

// Policy is a policy of any level.
type Policy struct {
	placementv1alpha1.PolicyReference
	// The selectors are absent where the level has none.
	LogicalClusterSelector, NamespaceSelector *metav1.LabelSelector
	Rules                                     *placementv1alpha1.PolicyRules
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
		LogicalClusterSelector: p.Spec.LogicalClusterSelector, NamespaceSelector: p.Spec.NamespaceSelector, Rules: &p.Spec.PolicyRules,
	}
}

// InNamespace is a policy of the unit's own namespace.
func InNamespace(p *placementv1alpha1.PlacementPolicy) Policy {
	return Policy{
		PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyNamespace, Name: p.Name, Generation: p.Generation},
		Rules:           &p.Spec,
	}
}

// TooMany is in the place of the policies of a level of which there are more than
// are read.
func TooMany(level placementv1alpha1.PolicyLevel) Policy {
	return Policy{
		PolicyReference: placementv1alpha1.PolicyReference{Level: level, Name: "*"}, Rules: &placementv1alpha1.PolicyRules{},
		Unreadable: "there are too many; delete some",
	}
}

// MaxPolicies is how many policies of one logical cluster, and of one namespace, are
// read for a decision. Those of "root" are the admin's: they have no such bound.
const MaxPolicies = 32

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
	unit   Unit
	shape  shape
	order  order
	refuse bool
	move   placementv1alpha1.MoveRules
	// most is the least maxCount, and limits the policy that has it; 0: none has.
	most      int
	limits    string
	heard     []placementv1alpha1.PolicyReference
	fences    []fence
	relations []relation
	// now, watched and cutOff are those of the snapshot.
	now, watched time.Time
	cutOff       bool
	// stay is how long all that is decided may stay.
	stay stay
	// tolerations of each level, by its rank.
	tolerations [3][]corev1.Toleration
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
	r := &rules{unit: u, shape: shape{count: 1, least: 1}, now: s.Now, watched: s.Watched, cutOff: s.CutOff}
	policies := slices.Clone(s.Policies)
	slices.SortFunc(policies, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(rank(a.Level), rank(b.Level)), cmp.Compare(a.Name, b.Name))
	})
	var shaped, ordered, answered, moves bool
	for _, p := range policies {
		selects, err := p.selects(u)
		if err == nil && !selects {
			continue
		}
		r.heard = append(r.heard, p.PolicyReference)
		err = errors.Join(err, r.constrain(p, s))
		if !shaped {
			r.shape, shaped = newShape(p, r.shape)
		}
		if !ordered {
			var orderErr error
			r.order, ordered, orderErr = newOrder(p)
			err = errors.Join(err, orderErr)
		}
		if p.Rules.IfImpossible != "" && !answered {
			r.refuse, answered = p.Rules.IfImpossible == placementv1alpha1.ImpossibleRefuse, true
		}
		if p.Rules.Move != nil && !moves {
			r.move, moves = *p.Rules.Move, true
		}
		r.fences = append(r.fences, newFence(p, err))
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

func (p Policy) selects(u Unit) (bool, error) {
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
