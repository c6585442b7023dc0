package stock

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// matching is the plugin of webhooks, of which some have match conditions: expressions as those of
// policies, on the same processors and of the same budget. While a webhook is asked nothing is
// evaluated, so neither is used up by waiting for its answer.
type matching struct {
	*lazy
	// conditions says that webhooks of a logical cluster have some.
	conditions func(logicalcluster.Name) bool
}

var (
	_ admission.MutationInterface   = &matching{}
	_ admission.ValidationInterface = &matching{}
)

// Admit implements admission.MutationInterface.
func (m *matching) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return m.match(ctx, a, func(ctx context.Context) error { return m.lazy.Admit(ctx, a, o) })
}

// Validate implements admission.ValidationInterface.
func (m *matching) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return m.match(ctx, a, func(ctx context.Context) error { return m.lazy.Validate(ctx, a, o) })
}

func (m *matching) match(ctx context.Context, a admission.Attributes, f func(context.Context) error) error {
	c, ok := scope.ClusterFrom(ctx)
	if !ok || !m.conditions(c) {
		return f(ctx)
	}
	done, err := fairness.Compute(ctx)
	if err != nil {
		return err //nolint:wrapcheck // an answer
	}
	defer done()
	return budgeted(ctx, a, f)
}
