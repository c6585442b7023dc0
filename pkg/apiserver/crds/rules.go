package crds

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// beforeRules is the admission of custom resources whose schema has rules, which are evaluated
// between its two halves. Upstream bounds what one evaluation costs, and evaluates anew whenever
// somebody else wrote the object meanwhile: each time is taken from the budget that the request
// has for expressions, on the processors for such. An evaluation that began comes to its end, so
// that what upstream accepts is accepted.
type beforeRules struct{ admission.Interface }

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
	return validated(ctx, func(ctx context.Context) field.ErrorList { return s.RESTCreateStrategy.Validate(ctx, obj) })
}

// validatedUpdate is the same for updates.
type validatedUpdate struct{ rest.RESTUpdateStrategy }

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s validatedUpdate) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return validated(ctx, func(ctx context.Context) field.ErrorList { return s.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old) })
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
