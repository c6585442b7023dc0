package crds

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// requestOf is the context of a request, which has a budget.
func requestOf(t *testing.T) (ctx context.Context) {
	t.Helper()
	limiter := fairness.NewLimiter(func(context.Context, logicalcluster.Name) int64 { return 0 }, func(*http.Request) bool { return false })
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api", nil)
	limiter.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), req)
	return scope.WithCluster(ctx, "shop")
}

func writing(op admission.Operation) admission.Attributes {
	return admission.NewAttributesRecord(&unstructured.Unstructured{}, nil, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "default", "made",
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "", op, nil, false, nil)
}

func TestEachEvaluationOfRulesIsTakenFromTheBudget(t *testing.T) {
	t.Parallel()
	ctx := requestOf(t)
	b, budget := beforeRules{}, fairness.BudgetOf(ctx)
	if err := b.Admit(ctx, writing(admission.Update), nil); err != nil {
		t.Fatal(err)
	}
	for budget.Left() == fairness.EvaluationBudget { // what upstream evaluates here
		if err := b.Admit(ctx, writing(admission.Update), nil); err != nil { // it meets a conflict
			t.Fatal(err)
		}
	}
	if err := b.Validate(ctx, writing(admission.Update), nil); err != nil {
		t.Fatal(err)
	}
	budget.Spend(fairness.EvaluationBudget)
	for op, refused := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: false, admission.Connect: false} {
		err := b.Admit(ctx, writing(op), nil)
		if got := apierrors.HasStatusCause(err, fairness.CauseEvaluation); got != refused {
			t.Errorf("%s without a budget: %v", op, err)
		}
	}
}

func TestTheValidationOfADefinitionEndsWithTheBudget(t *testing.T) {
	t.Parallel()
	ctx := requestOf(t)
	wrong := field.ErrorList{field.Required(field.NewPath("spec"), "")}
	if got := validated(ctx, func(context.Context) field.ErrorList { return wrong }); len(got) != 1 || got[0] != wrong[0] {
		t.Errorf("what is wrong becomes %v", got)
	}
	fairness.BudgetOf(ctx).Spend(fairness.EvaluationBudget)
	got := validated(ctx, func(ctx context.Context) field.ErrorList { <-ctx.Done(); return nil })
	if len(got) != 1 || got[0].Detail != fairness.SpentMessage("shop") {
		t.Errorf("the budget ends: %v", got)
	}
}
