package stock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// CauseEvaluation is the cause in the answer to a request whose policies evaluate for too long.
const CauseEvaluation metav1.CauseType = "PolicyEvaluationBudget"

// evaluating is a plugin that evaluates expressions of tenants, which cost processor time and
// nothing else. Half of the processors do that, a logical cluster gets a share of them, and
// each request has one budget for all policies.
type evaluating struct {
	*lazy
	clock clock.PassiveClock
}

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

// errSpent ends an evaluation.
var errSpent = errors.New("the budget of the request is spent")

// evaluate runs f while the request has budget. Upstream takes an evaluation that was ended for
// an error of that policy, which its failure policy may ignore: here the request is refused.
func (e *evaluating) evaluate(ctx context.Context, a admission.Attributes, f func(context.Context) error) error {
	c, _ := scope.ClusterFrom(ctx)
	budget := fairness.BudgetOf(ctx)
	left := budget.Left()
	if left <= 0 {
		return spent(a, c)
	}
	done, err := fairness.Evaluate(ctx)
	if err != nil {
		return err //nolint:wrapcheck // an answer
	}
	defer done()
	within, cancel := context.WithTimeoutCause(ctx, left, errSpent)
	defer cancel()
	began := e.clock.Now()
	err = f(within)
	budget.Spend(e.clock.Since(began))
	if errors.Is(context.Cause(within), errSpent) {
		return spent(a, c)
	}
	return err
}

func spent(a admission.Attributes, c logicalcluster.Name) error {
	why := fmt.Sprintf("the admission policies of logical cluster %q evaluate expressions for longer than the %s that one request has for all of them: make their expressions cheaper, match less by matchConstraints, or bind fewer",
		c, fairness.EvaluationBudget.Round(time.Second))
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: %s", a.GetResource().GroupResource(), a.GetName(), why),
		Details: &metav1.StatusDetails{Group: a.GetResource().Group, Kind: a.GetResource().Resource, Name: a.GetName(),
			Causes: []metav1.StatusCause{{Type: CauseEvaluation, Message: why}}},
	}}
}
