package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// operators are those of the terms, as stock selectors call them.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

// selector of a term.
func selector(t placementv1alpha1.PhysicalClusterTerm) (labels.Selector, error) {
	s := labels.SelectorFromSet(t.MatchLabels)
	for _, e := range t.MatchExpressions {
		operator, ok := operators[e.Operator]
		if !ok {
			return nil, fmt.Errorf("there is no operator %q", e.Operator)
		}
		requirement, err := labels.NewRequirement(e.Key, operator, e.Values)
		if err != nil {
			return nil, err
		}
		s = s.Add(*requirement)
	}
	return s, nil
}

func selectors(terms []placementv1alpha1.PhysicalClusterTerm) ([]labels.Selector, error) {
	out := make([]labels.Selector, 0, len(terms))
	for _, t := range terms {
		s, err := selector(t)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
