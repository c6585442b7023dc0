package crds

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver/crds/work"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// costlySteps is what the validation of a custom resource may take, in steps of some ten nanoseconds,
	// without a processor for what is expensive; mostSteps is what it may take at all, about five seconds:
	// three times what the longest list of numbers takes that a request can carry.
	costlySteps, mostSteps = 1_000_000, 500_000_000
	// causeWork is the cause in the answer to a write whose validation would take more.
	causeWork metav1.CauseType = "ValidationWork"
)

// beforeRules is the admission of custom resources, which are validated between its two halves.
// Nothing interrupts that: what it takes is computed before (work.Schema), and decides.
//
//	steps              rules   subresource   then
//	more than most     any     any           403
//	more than costly   any     any           with a processor for what is expensive, to the end of the request
//	fewer              some    any           the same
//	fewer              none    scale         the same: what is validated is not what admission is shown
//	fewer              none    other         at once
//
// Upstream bounds what one evaluation of rules costs, and validates anew whenever
// somebody else wrote the object meanwhile: each time is taken from the budget that the request
// has for expressions, on the processors for such. An evaluation that began comes to its end, so
// that what upstream accepts is accepted.
type beforeRules struct {
	admission.Interface
	// rules says that the schemas may have expressions.
	rules bool
	// schemas are those of the versions.
	schemas map[string]*work.Schema
}

var (
	_ admission.MutationInterface   = beforeRules{}
	_ admission.ValidationInterface = beforeRules{}
)

// Admit implements admission.MutationInterface.
func (b beforeRules) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	budget := fairness.BudgetOf(ctx)
	budget.Stop()
	if m, ok := b.Interface.(admission.MutationInterface); ok {
		if err := m.Admit(ctx, a, o); err != nil {
			return err
		}
	}
	if op := a.GetOperation(); op != admission.Create && op != admission.Update {
		return nil
	}
	forgetPatterns()
	obj, shown := validatedOf(a)
	steps := b.schemas[a.GetKind().Version].Steps(obj, mostSteps)
	if steps > mostSteps {
		return tooMuchWork(a)
	}
	if shown && !b.rules && steps <= costlySteps {
		return nil
	}
	if budget.Left() <= 0 {
		c, _ := scope.ClusterFrom(ctx)
		return fairness.Spent(c, a.GetResource().GroupResource(), a.GetName()) //nolint:wrapcheck // an answer
	}
	if _, err := fairness.Compute(ctx); err != nil { // to the end of the request
		return err //nolint:wrapcheck // an answer
	}
	budget.Start(nil)
	return nil
}

// validatedOf is what is validated of a request: of a status, the object that there is with that status. False
// if admission is not shown it.
func validatedOf(a admission.Attributes) (map[string]any, bool) {
	now, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil, false
	}
	old, ok := a.GetOldObject().(*unstructured.Unstructured)
	if a.GetSubresource() != "status" || !ok {
		return now.Object, true
	}
	whole := maps.Clone(old.Object)
	if whole == nil {
		whole = map[string]any{}
	}
	whole["status"] = now.Object["status"]
	return whole, true
}

func tooMuchWork(a admission.Attributes) error {
	gr := a.GetResource().GroupResource()
	const why = "its schema would take more than five seconds to validate it, as it has too many patterns, branches (anyOf, oneOf, allOf, not), properties or values of an enum for each value of an object of this size: " +
		"make the schema in spec.versions of its CustomResourceDefinition simpler, or the object smaller"
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: %s", gr, a.GetName(), why),
		Details: &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, Name: a.GetName(), Causes: []metav1.StatusCause{{Type: causeWork, Message: why}}},
	}}
}

// schemasOf are the schemas of a definition by version.
func schemasOf(crd *apiextensionsv1.CustomResourceDefinition) (map[string]*work.Schema, error) {
	schemas := make(map[string]*work.Schema, len(crd.Spec.Versions))
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			return nil, fmt.Errorf("converting the schema of version %s: %w", v.Name, err)
		}
		schemas[v.Name] = work.Of(internal)
	}
	return schemas, nil
}

// refusedPatterns says which patterns of the schemas are too many or too long.
func refusedPatterns(obj runtime.Object) (errs field.ErrorList) {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil
	}
	if crd.Spec.Validation != nil {
		if err := work.Refused(crd.Spec.Validation.OpenAPIV3Schema, field.NewPath("spec", "validation", "openAPIV3Schema")); err != nil {
			return field.ErrorList{err}
		}
	}
	for i, v := range crd.Spec.Versions {
		if v.Schema == nil {
			continue
		}
		if err := work.Refused(v.Schema.OpenAPIV3Schema, field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Validate implements admission.ValidationInterface.
func (b beforeRules) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	fairness.BudgetOf(ctx).Stop()
	if v, ok := b.Interface.(admission.ValidationInterface); ok {
		return v.Validate(ctx, a, o)
	}
	return nil
}

// validatedCreation is the strategy of definitions, whose rules are compiled when they are validated, and
// evaluated for each default in the schema.
type validatedCreation struct{ rest.RESTCreateStrategy }

// Validate implements rest.RESTCreateStrategy.
func (s validatedCreation) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if errs := refusedPatterns(obj); len(errs) > 0 {
		return errs
	}
	return validated(ctx, func(ctx context.Context) field.ErrorList { return s.RESTCreateStrategy.Validate(ctx, obj) })
}

// validatedUpdate is the same for updates.
type validatedUpdate struct{ rest.RESTUpdateStrategy }

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s validatedUpdate) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if !sameSchemas(obj, old) { // one of before is not held up by what it has
		if errs := refusedPatterns(obj); len(errs) > 0 {
			return errs
		}
	}
	return validated(ctx, func(ctx context.Context) field.ErrorList { return s.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old) })
}

func sameSchemas(obj, old runtime.Object) bool {
	a, ok := obj.(*apiextensions.CustomResourceDefinition)
	b, known := old.(*apiextensions.CustomResourceDefinition)
	return ok && known && apiequality.Semantic.DeepEqual(a.Spec.Versions, b.Spec.Versions) && apiequality.Semantic.DeepEqual(a.Spec.Validation, b.Spec.Validation)
}

func validated(ctx context.Context, f func(context.Context) field.ErrorList) field.ErrorList {
	done, err := fairness.Compute(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", "versions"), err)}
	}
	defer done()
	c, _ := scope.ClusterFrom(ctx)
	budget := fairness.BudgetOf(ctx)
	within, spent := budget.Within(ctx)
	errs := f(within)
	if spent() {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "versions"), fairness.SpentMessage(c))}
	}
	return errs
}
