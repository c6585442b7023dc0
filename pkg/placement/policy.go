package placement

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// rules is what the policies that select a unit come to.
type rules struct {
	unit   Unit
	count  int
	refuse bool
	heard  []placementv1alpha1.PolicyReference
	fences []fence
	// tolerations of each level; nil where no policy has any.
	global, local []corev1.Toleration
}

// fence is what one policy permits: physical clusters that one of the terms
// selects. A policy that cannot be read permits none.
type fence struct {
	name  string
	terms []labels.Selector
	err   error
}

// compile reads the policies that select a unit, those of the logical cluster
// before those of "root", by name.
func compile(policies []Policy, u Unit) *rules {
	r := &rules{unit: u, count: 1}
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b Policy) int {
		return cmp.Or(-cmp.Compare(a.Level, b.Level), cmp.Compare(a.Name, b.Name))
	})
	var counted, said bool
	for _, p := range policies {
		selects, err := selectsUnit(p.Spec, u)
		if err == nil && !selects {
			continue
		}
		r.heard = append(r.heard, placementv1alpha1.PolicyReference{Name: p.Name, Generation: p.Generation})
		r.fences = append(r.fences, newFence(p, err))
		if p.Spec.Count != nil && !counted {
			r.count, counted = max(1, int(*p.Spec.Count)), true
		}
		if p.Spec.IfImpossible != "" && !said {
			r.refuse, said = p.Spec.IfImpossible == placementv1alpha1.ImpossibleRefuse, true
		}
		if p.Level == Global {
			r.global = append(r.global, p.Spec.Tolerations...)
		} else {
			r.local = append(r.local, p.Spec.Tolerations...)
		}
	}
	return r
}

func newFence(p Policy, err error) fence {
	f := fence{name: p.Name, err: err}
	for i := range p.Spec.Terms {
		s, err := metav1.LabelSelectorAsSelector(&p.Spec.Terms[i])
		if err != nil {
			f.err = err
			break
		}
		f.terms = append(f.terms, s)
	}
	return f
}

func selectsUnit(spec placementv1alpha1.PolicySpec, u Unit) (bool, error) {
	for _, s := range []struct {
		selector *metav1.LabelSelector
		labels   labels.Set
	}{
		{spec.LogicalClusterSelector, u.LogicalClusterLabels},
		{spec.NamespaceSelector, u.NamespaceLabels},
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

// tolerated: a policy of "root" must tolerate the taint, and if policies of the
// logical cluster name tolerations, one of these must do so too.
func (r *rules) tolerated(taint corev1.Taint) bool {
	tolerates := func(t corev1.Toleration) bool { return toleratesTaint(t, taint) }
	return slices.ContainsFunc(r.global, tolerates) &&
		(len(r.local) == 0 || slices.ContainsFunc(r.local, tolerates))
}

// toleratesTaint as Kubernetes has it: an empty effect means all effects, an
// empty key with Exists all keys, an empty operator Equal.
func toleratesTaint(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Key != "" && t.Value == taint.Value
	}
	return false
}
