package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
)

const (
	// expensivePolicies are for objects with the number of one, or with allPolicies, as their label.
	expensivePolicies = 12
	allPolicies       = "all"
	policyLabel       = "policy"
	// expensive expressions are evaluated over so many keys of an object.
	expensiveKeys = 4000
	// expensiveEach are those of a policy: upstream ends each for its cost, and no policy.
	expensiveEach = 9
	expensive     = `object.data.all(k, object.data[k].matches('^(a+)+$')) && object.data.all(k, object.data[k].matches('^(a*)*b?$'))`
	// longestEvaluation is longer than what a request has for all policies, on a busy machine, and
	// much less than what ten policies take that nobody bounds.
	longestEvaluation = 15 * time.Second
	evaluatesTooLong  = "evaluate expressions for longer"
)

var expressions = Attack{
	Name: "a tenant's policies evaluate for no longer than one request may, however many there are",
	Fence: func(ctx context.Context, w *World) error {
		create, err := w.evaluating(ctx, expensivePolicies, expensiveKeys)
		if err != nil {
			return err
		}
		began := time.Now()
		err = create(allPolicies)
		if took := time.Since(began); took > longestEvaluation {
			return fmt.Errorf("the creation took %s", took)
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), evaluatesTooLong) {
			return fmt.Errorf("the creation is answered: %v", err)
		}
		return nil
	},
	// Asked one by one, each with a request and a budget of its own, they take what together they
	// may not: what one request would take if nobody bounded it.
	Control: func(ctx context.Context, w *World) error {
		create, err := w.evaluating(ctx, expensivePolicies, expensiveKeys)
		if err != nil {
			return err
		}
		var took time.Duration
		for i := range expensivePolicies {
			began := time.Now()
			err := create(fmt.Sprint(i))
			took += time.Since(began)
			switch {
			case apierrors.IsForbidden(err) && strings.Contains(err.Error(), evaluatesTooLong): // one alone is too much
				return nil
			case err != nil:
				return err
			}
		}
		if took < fairness.EvaluationBudget {
			return fmt.Errorf("all policies one by one took %s, less than one request may", took)
		}
		return nil
	},
}

// evaluating binds policies to ConfigMaps, and returns, when they are known, how one of so many keys is
// created with a label.
func (w *World) evaluating(ctx context.Context, policies, keys int) (create func(label string) error, err error) {
	if ctx, err = w.cluster(ctx); err != nil {
		return nil, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return nil, err
	}
	api := who.kube.AdmissionregistrationV1()
	for i := range policies {
		name := fmt.Sprint("expensive-", i)
		rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}
		spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), // what goes wrong refuses nothing
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}, ObjectSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: policyLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint(i), allPolicies}}},
			}},
			Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("!('probe-%d' in object.data)", i)}},
		}
		for range expensiveEach {
			spec.Validations = append(spec.Validations, admissionregistrationv1.Validation{Expression: expensive})
		}
		if _, err := api.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating a policy: %w", err)
		}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}
		if _, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("binding a policy: %w", err)
		}
	}
	maps := who.kube.CoreV1().ConfigMaps("default")
	for i := range policies { // each refuses its own probe
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{policyLabel: fmt.Sprint(i)}}, Data: map[string]string{fmt.Sprint("probe-", i): "a"}}
		if err := eventually(ctx, fmt.Sprintf("policy %d is known", i), func() error {
			_, err := maps.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), "expensive-") {
				return fmt.Errorf("it refuses nothing: %v", err)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	data := map[string]string{}
	for i := range keys {
		data[fmt.Sprint("key-", i)] = "aaaaaaaaaaaaaaaaaaaaaaaa"
	}
	return func(label string) error {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "made-" + label, Labels: map[string]string{policyLabel: label}}, Data: data}
		_, err := maps.Create(ctx, made, metav1.CreateOptions{})
		return err
	}, nil
}
