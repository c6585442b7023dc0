package roles

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func role(name, label string, verbs ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part-of": label}}}
	for _, v := range verbs {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{v}})
	}
	return r
}

func TestAggregatedRulesComeFromSelectedRolesByNameAndOnce(t *testing.T) {
	sum := role("sum", "a", "own")
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"part-of": "a"}}, {MatchLabels: map[string]string{"part-of": "b"}},
	}}
	got, err := Aggregate(sum, []*rbacv1.ClusterRole{role("3", "b", "list"), role("2", "a", "watch", "get"), role("1", "a", "get"), role("0", "c", "delete"), sum})
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{{Verbs: []string{"get"}}, {Verbs: []string{"watch"}}, {Verbs: []string{"list"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABadSelectorIsAnError(t *testing.T) {
	sum := &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}},
	}}}
	if _, err := Aggregate(sum, nil); err == nil {
		t.Error("no error")
	}
}
