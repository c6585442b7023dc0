package podrules

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func rule(t *testing.T, manifest string) admissionregistrationv1.RuleWithOperations {
	t.Helper()
	var r admissionregistrationv1.RuleWithOperations
	if err := yaml.Unmarshal([]byte(manifest), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhichRulesAreAboutNewPods(t *testing.T) {
	for manifest, want := range map[string]bool{
		`{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`:                    true,
		`{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}`:                      true,
		`{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}`:                    true,
		`{operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`:                    false,
		`{operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: ["*"]}`:                   false,
		`{operations: [CREATE], apiGroups: [""], apiVersions: [v2], resources: [pods]}`:                    false,
		`{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [services]}`:                false,
		`{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods/eviction, "pods/*"]}`: false,
		`{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: Cluster}`:    false,
		`{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: Namespaced}`: true,
	} {
		if got := newPods(rule(t, manifest)); got != want {
			t.Errorf("%s: %v", manifest, got)
		}
	}
}

func TestARuleSpeaksInTheNamespacesThatItSelects(t *testing.T) {
	pods := rule(t, `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}`)
	maps := rule(t, `{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}`)
	inject := &metav1.LabelSelector{MatchLabels: map[string]string{"inject": "yes"}}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Perhaps"}}}
	webhook := func(s *metav1.LabelSelector, rules ...admissionregistrationv1.RuleWithOperations) Rules {
		return Rules{MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Rules: rules, NamespaceSelector: s}}}}}
	}
	policy := func(of *metav1.LabelSelector, bound *admissionregistrationv1.MatchResources, name string) Rules {
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{NamespaceSelector: of,
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: pods}}}
		b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		b.Spec.PolicyName, b.Spec.MatchResources = name, bound
		return Rules{ValidatingPolicies: []*admissionregistrationv1.ValidatingAdmissionPolicy{p}, ValidatingBindings: []*admissionregistrationv1.ValidatingAdmissionPolicyBinding{b}}
	}
	for name, c := range map[string]struct {
		rules         Rules
		inject, other bool
	}{
		"none":                            {Rules{}, false, false},
		"a webhook for all":               {webhook(nil, maps, pods), true, true},
		"for others":                      {webhook(nil, maps), false, false},
		"for some namespaces":             {webhook(inject, pods), true, false},
		"for nobody knows which":          {webhook(bad, pods), true, true},
		"a policy for all":                {policy(nil, nil, "p"), true, true},
		"that nobody binds":               {policy(nil, nil, "q"), false, false},
		"for some namespaces as it says":  {policy(inject, nil, "p"), true, false},
		"as its binding says":             {policy(nil, &admissionregistrationv1.MatchResources{NamespaceSelector: inject}, "p"), true, false},
		"whose binding is for other kind": {policy(nil, &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: maps}}}, "p"), false, false},
	} {
		in := Of(c.rules)
		if got := in.In(map[string]string{"inject": "yes"}); got != c.inject {
			t.Errorf("%s: in a namespace that asks for it %v", name, got)
		}
		if got := in.In(nil); got != c.other {
			t.Errorf("%s: in another one %v", name, got)
		}
	}
}
