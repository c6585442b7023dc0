package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhichPoliciesBoundHowManyMove(t *testing.T) {
	one := int32(1)
	policy := func(name string, most *int32, namespaces *metav1.LabelSelector) Policy {
		return Policy{
			PolicyReference: placementv1alpha1.PolicyReference{Level: placementv1alpha1.PolicyGlobal, Name: name}, NamespaceSelector: namespaces,
			MaxMoving: most, Rules: &placementv1alpha1.PolicyRules{},
		}
	}
	of := func(tier string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}
	}
	unit := Unit{Name: placementv1alpha1.NamespaceUnit, NamespaceLabels: map[string]string{"tier": "gold"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Odd"}}}
	var names []string
	for _, p := range Bounding([]Policy{
		policy("for all", &one, nil), policy("for gold", &one, of("gold")), policy("for iron", &one, of("iron")), policy("without a bound", nil, nil), policy("not to be read", &one, broken),
	}, unit) {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"for all", "for gold", "not to be read"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
