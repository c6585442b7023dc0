package stock

import (
	"context"

	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// evaluating is a plugin that evaluates expressions of tenants, which cost processor time and
// nothing else. Half of the processors do that, a logical cluster gets a share of them, and
// each request has one budget for all policies.
type evaluating struct{ *lazy }

var (
	_ admission.MutationInterface   = &evaluating{}
	_ admission.ValidationInterface = &evaluating{}
)

// Admit implements admission.MutationInterface.
func (e *evaluating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p, err := e.of(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if mutator, ok := p.(admission.MutationInterface); ok {
		return e.evaluate(ctx, a, func(ctx context.Context) error { return mutator.Admit(ctx, a, o) })
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (e *evaluating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	p, err := e.of(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if validator, ok := p.(admission.ValidationInterface); ok {
		return e.evaluate(ctx, a, func(ctx context.Context) error { return validator.Validate(ctx, a, o) })
	}
	return nil
}

// evaluate runs f while the request has budget. Upstream takes an evaluation that was ended for
// an error of that policy, which its failure policy may ignore: here the request is refused.
func (e *evaluating) evaluate(ctx context.Context, a admission.Attributes, f func(context.Context) error) error {
	done, err := fairness.Evaluate(ctx)
	if err != nil {
		return err //nolint:wrapcheck // an answer
	}
	defer done()
	return budgeted(ctx, a, f)
}

func budgeted(ctx context.Context, a admission.Attributes, f func(context.Context) error) error {
	c, _ := scope.ClusterFrom(ctx)
	budget := fairness.BudgetOf(ctx)
	if budget.Left() <= 0 {
		return fairness.Spent(c, a.GetResource().GroupResource(), a.GetName()) //nolint:wrapcheck // an answer
	}
	within, spent := budget.Within(ctx)
	err := f(within)
	if spent() {
		return fairness.Spent(c, a.GetResource().GroupResource(), a.GetName()) //nolint:wrapcheck // an answer
	}
	return err
}
