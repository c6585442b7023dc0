package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// so many webhooks, and versions of a definition, evaluate what upstream lets each of them.
	costlyWebhooks, costlyVersions, costlyRules = 24, 24, 9
	// so many patterns, each evaluated for each of so many bytes.
	costlyPatterns, costlyText = 200, 60_000
	// conditionedLabel is that of objects which webhooks are about: the number of one, or allPolicies.
	conditionedLabel = "conditioned"
)

// costlyExpression costs nearly as much as one evaluation may, and is true.
func costlyExpression(i int) string {
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	return fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, [0,1,2,3].all(e, a+b+c+d+e >= -%[2]d)))))", ten, i)
}

// matchConditions takes a request with all webhooks, then one with each of them.
var matchConditions = Attack{
	Name: "a tenant's webhooks evaluate match conditions for no longer than one request may, however many there are",
	Fence: func(ctx context.Context, w *World) error {
		create, err := w.conditioned(ctx, costlyWebhooks)
		if err != nil {
			return err
		}
		return spends(func() error { return create(allPolicies) }, apierrors.IsForbidden)
	},
	Control: func(ctx context.Context, w *World) error {
		create, err := w.conditioned(ctx, costlyWebhooks)
		if err != nil {
			return err
		}
		return together(costlyWebhooks, func(i int) error { return create(fmt.Sprint(i)) })
	},
}

// schemaRules makes a definition with many versions, then one for each of them.
var schemaRules = Attack{
	Name: "a tenant's definition evaluates the rules of its schemas for no longer than one request may",
	Fence: func(ctx context.Context, w *World) error {
		define, err := w.defining(ctx)
		if err != nil {
			return err
		}
		return spends(func() error { return define("all.example.com", costlyVersions) }, apierrors.IsInvalid)
	},
	Control: func(ctx context.Context, w *World) error {
		define, err := w.defining(ctx)
		if err != nil {
			return err
		}
		return together(costlyVersions, func(i int) error { return define(fmt.Sprintf("g%d.example.com", i), 1) })
	},
}

// schemaPatterns makes a definition whose patterns take seconds for an object that is not large, and one such.
var schemaPatterns = Attack{
	Name: "a tenant's schema of patterns computes nothing that would take longer than a request may",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		client, err := clientset.NewForConfig(scope.ScopedConfig(who.config))
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		objects, err := dynamic.NewForConfig(scope.ScopedConfig(who.config))
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		text := apiextensionsv1.JSONSchemaProps{Type: "string"}
		for i := range costlyPatterns {
			text.AnyOf = append(text.AnyOf, apiextensionsv1.JSONSchemaProps{Pattern: costlyPattern(i)})
		}
		crd := ownDefinition("patterns.example.com")
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{"text": text}
		if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a definition: %w", err)
		}
		began := time.Now()
		_, err = objects.Resource(schema.GroupVersionResource{Group: "patterns.example.com", Version: "v1", Resource: "widgets"}).Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "patterns.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "costly"}, "text": strings.Repeat("a", costlyText),
		}}, metav1.CreateOptions{})
		if took := time.Since(began); took > longestEvaluation {
			return fmt.Errorf("the request took %s", took)
		}
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, "ValidationWork") {
			return fmt.Errorf("the request is answered: %w", err)
		}
		return nil
	},
	Control: func(context.Context, *World) error {
		s := &spec.Schema{}
		for i := range costlyPatterns {
			s.AnyOf = append(s.AnyOf, spec.Schema{SchemaProps: spec.SchemaProps{Pattern: costlyPattern(i)}})
		}
		began := time.Now()
		_ = validate.NewSchemaValidator(s, nil, "", strfmt.Default).Validate(strings.Repeat("a", costlyText/5)) // enough to be seen
		if took := time.Since(began); took < fairness.EvaluationBudget {
			return fmt.Errorf("who validates it takes %s only", took)
		}
		return nil
	},
}

// costlyPattern is met by each byte of a text of a's with all that it has.
func costlyPattern(i int) string { return fmt.Sprintf("(a?){100}b%d$", i) }

// spends says that a request is refused for what it evaluates, and in time.
func spends(do func() error, refused func(error) bool) error {
	began := time.Now()
	err := do()
	if took := time.Since(began); took > longestEvaluation {
		return fmt.Errorf("the request took %s", took)
	}
	if !refused(err) || !strings.Contains(err.Error(), evaluatesTooLong) {
		return fmt.Errorf("the request is answered: %v", err)
	}
	return nil
}

// together says that what is asked one by one takes longer than one request may.
func together(n int, do func(int) error) error {
	var took time.Duration
	for i := range n {
		began := time.Now()
		switch err := do(i); {
		case err != nil && strings.Contains(err.Error(), evaluatesTooLong): // one alone is too much
			return nil
		case err != nil:
			return err
		}
		took += time.Since(began)
	}
	if took < fairness.EvaluationBudget {
		return fmt.Errorf("all of them one by one took %s, less than one request may", took)
	}
	return nil
}

// conditioned makes webhooks for ConfigMaps, none of which is ever called, and returns, when they are
// known, how one is created with a label.
func (w *World) conditioned(ctx context.Context, webhooks int) (create func(label string) error, err error) {
	if ctx, err = w.cluster(ctx); err != nil {
		return nil, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return nil, err
	}
	hook := func(name string, labels ...string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: name + ".example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: ptr.To[int32](1),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://webhook.invalid/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: conditionedLabel, Operator: metav1.LabelSelectorOpIn, Values: labels}}},
		}
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "costly"}}
	for i := range webhooks {
		h := hook(fmt.Sprint("h", i), fmt.Sprint(i), allPolicies)
		h.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
		for j, expression := range []string{costlyExpression(2 * i), costlyExpression(2*i + 1), "false"} {
			h.MatchConditions = append(h.MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprint("c", j), Expression: expression})
		}
		configuration.Webhooks = append(configuration.Webhooks, h)
	}
	configuration.Webhooks = append(configuration.Webhooks, hook("probe", "probe"))
	if _, err := who.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating webhooks: %w", err)
	}
	create = func(label string) error {
		_, err := who.kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "made-" + label, Labels: map[string]string{conditionedLabel: label}}}, metav1.CreateOptions{})
		return err
	}
	return create, eventually(ctx, "the webhooks are known", func() error {
		if err := create("probe"); err == nil || !strings.Contains(err.Error(), "probe.example.com") {
			return fmt.Errorf("the one that is called refuses nothing: %v", err)
		}
		return nil
	})
}

// defining returns how a tenant makes a definition of so many versions, each with a default that its
// rules are evaluated for.
func (w *World) defining(ctx context.Context) (define func(group string, versions int) error, err error) {
	if ctx, err = w.cluster(ctx); err != nil {
		return nil, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return nil, err
	}
	client, err := clientset.NewForConfig(scope.ScopedConfig(who.config))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	text := apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"a"`)}}
	for i := range costlyRules {
		text.XValidations = append(text.XValidations, apiextensionsv1.ValidationRule{Rule: "self == '' || " + costlyExpression(i)})
	}
	return func(group string, versions int) error {
		crd := ownDefinition(group)
		for i := range versions {
			v := apiextensionsv1.CustomResourceDefinitionVersion{Name: fmt.Sprint("v", i+1), Served: true, Storage: i == 0}
			v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Description: v.Name, Properties: map[string]apiextensionsv1.JSONSchemaProps{"text": text}}} // equal ones are validated once
			crd.Spec.Versions = append(crd.Spec.Versions[:i], v)
		}
		_, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{})
		return err
	}, nil
}
