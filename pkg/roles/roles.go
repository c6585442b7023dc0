// Package roles computes the rules of aggregated cluster roles, as upstream's
// controller does. It is pure.
package roles

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// IsAggregated says whether the rules of role come from others.
func IsAggregated(role *rbacv1.ClusterRole) bool { return role.AggregationRule != nil }

// Aggregate returns the rules that role gets from all roles of its logical
// cluster: those of the roles that it selects, by selector and by name, each once.
func Aggregate(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	rules := []rbacv1.PolicyRule{}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("aggregating cluster role %s: %w", role.Name, err)
		}
		for _, part := range all {
			if part.Name == role.Name || !selector.Matches(labels.Set(part.Labels)) {
				continue
			}
			for _, rule := range part.Rules {
				if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return apiequality.Semantic.DeepEqual(r, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
