package customresources

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// costly is a rule that costs nearly what one evaluation may, for strings that begin with "costly".
func costly(n int) apiextensionsv1.ValidationRule {
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	return apiextensionsv1.ValidationRule{Rule: fmt.Sprintf(
		"!self.startsWith('costly') || %[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, [0,1,2,3].all(e, a+b+c+d+e >= -%[2]d)))))", ten, n)}
}

func ruled(rules int, value string) map[string]apiextensionsv1.JSONSchemaProps {
	p := apiextensionsv1.JSONSchemaProps{Type: "string", XValidations: []apiextensionsv1.ValidationRule{{Rule: "self != 'bad'"}}}
	for i := range rules {
		p.XValidations = append(p.XValidations, costly(i))
	}
	if value != "" {
		p.Default = &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", value)}
	}
	return map[string]apiextensionsv1.JSONSchemaProps{"text": p}
}

func TestRulesOfSchemasAreEvaluatedAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	ctx := s.NewCluster(t, "rules")
	define(ctx, t, s, definition(ruled(9, "")))
	objects := widgetsOf(s)
	if _, err := objects.Create(ctx, widget("good", map[string]any{"text": "good"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Create(ctx, widget("bad", map[string]any{"text": "bad"}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("what breaks a rule: %v", err)
	}
	if _, err := objects.Create(ctx, widget("costly", map[string]any{"text": "costly"}), metav1.CreateOptions{}); err != nil {
		t.Errorf("what costs much: %v", err)
	}
}

func TestTheDefaultsOfADefinitionAreValidatedWithinOneBudget(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	ctx := s.NewCluster(t, "defaults")
	crd := definition(ruled(9, "costly"))
	for i := range 20 {
		v := *crd.Spec.Versions[0].DeepCopy()
		v.Name, v.Storage = fmt.Sprint("v1alpha", i+1), false
		v.Schema.OpenAPIV3Schema.Description = v.Name // equal ones are validated once
		crd.Spec.Versions = append(crd.Spec.Versions, v)
	}
	_, err := definitions(s).ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "evaluate expressions for longer than the 2s") {
		t.Errorf("defaults of 21 versions: %v", err)
	}
	// The control has the same rules. How long a costly one takes depends on what else the machine
	// does, and the budget is of time.
	define(ctx, t, s, definition(ruled(9, "cheap")))
}
