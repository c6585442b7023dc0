package podrules

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Rules are those of one logical cluster.
type Rules struct {
	MutatingWebhooks   []*admissionregistrationv1.MutatingWebhookConfiguration
	ValidatingWebhooks []*admissionregistrationv1.ValidatingWebhookConfiguration
	MutatingPolicies   []*admissionregistrationv1.MutatingAdmissionPolicy
	MutatingBindings   []*admissionregistrationv1.MutatingAdmissionPolicyBinding
	ValidatingPolicies []*admissionregistrationv1.ValidatingAdmissionPolicy
	ValidatingBindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Pods selects the namespaces in which one of the rules may say something about new pods.
type Pods struct{ selectors []labels.Selector }

// Of reads rules.
func Of(r Rules) Pods {
	var p Pods
	for _, c := range r.MutatingWebhooks {
		for _, w := range c.Webhooks {
			p.webhook(w.Rules, w.NamespaceSelector)
		}
	}
	for _, c := range r.ValidatingWebhooks {
		for _, w := range c.Webhooks {
			p.webhook(w.Rules, w.NamespaceSelector)
		}
	}
	for _, b := range r.MutatingBindings {
		for _, policy := range r.MutatingPolicies {
			if policy.Name == b.Spec.PolicyName {
				p.policy(policy.Spec.MatchConstraints, b.Spec.MatchResources)
			}
		}
	}
	for _, b := range r.ValidatingBindings {
		for _, policy := range r.ValidatingPolicies {
			if policy.Name == b.Spec.PolicyName {
				p.policy(policy.Spec.MatchConstraints, b.Spec.MatchResources)
			}
		}
	}
	return p
}

// In says whether that is so in a namespace with labels.
func (p Pods) In(namespace map[string]string) bool {
	return slices.ContainsFunc(p.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(namespace)) })
}

func (p *Pods) webhook(rules []admissionregistrationv1.RuleWithOperations, namespaces *metav1.LabelSelector) {
	if slices.ContainsFunc(rules, newPods) {
		p.selectors = append(p.selectors, selector(namespaces))
	}
}

// policy adds one with its binding: both have to match.
func (p *Pods) policy(of, bound *admissionregistrationv1.MatchResources) {
	if of == nil || !slices.ContainsFunc(of.ResourceRules, namedNewPods) {
		return
	}
	in := selector(of.NamespaceSelector)
	if bound != nil {
		if len(bound.ResourceRules) > 0 && !slices.ContainsFunc(bound.ResourceRules, namedNewPods) {
			return
		}
		in = both{in, selector(bound.NamespaceSelector)}
	}
	p.selectors = append(p.selectors, in)
}

// both matches what two selectors match.
type both struct {
	labels.Selector
	other labels.Selector
}

func (b both) Matches(l labels.Labels) bool { return b.Selector.Matches(l) && b.other.Matches(l) }

// selector of namespaces; none, and one that cannot be read, select all.
func selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	read, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Everything()
	}
	return read
}

func namedNewPods(r admissionregistrationv1.NamedRuleWithOperations) bool {
	return newPods(r.RuleWithOperations)
}

// newPods says that a rule is about pods that are created. One about an equivalent resource
// there is not: pods are in one group and version.
func newPods(r admissionregistrationv1.RuleWithOperations) bool {
	creates := slices.Contains(r.Operations, admissionregistrationv1.OperationAll) || slices.Contains(r.Operations, admissionregistrationv1.Create)
	namespaced := r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope
	return creates && namespaced && has(r.APIGroups, "") && has(r.APIVersions, "v1") &&
		(has(r.Resources, "pods") || slices.Contains(r.Resources, "*/*"))
}

func has(all []string, one string) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}
