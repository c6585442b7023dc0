package stock

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// requestOf is the context of a request, which has a budget.
func requestOf(t *testing.T, c logicalcluster.Name) (ctx context.Context) {
	t.Helper()
	limiter := fairness.NewLimiter(func(context.Context, logicalcluster.Name) int64 { return 0 }, func(*http.Request) bool { return false })
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api", nil)
	limiter.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), req)
	return scope.WithCluster(ctx, c)
}

var creation = admission.NewAttributesRecord(&corev1.ConfigMap{}, nil, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "default", "made",
	corev1.SchemeGroupVersion.WithResource("configmaps"), "", admission.Create, nil, false, nil)

func TestPoliciesOfARequestShareOneBudget(t *testing.T) {
	t.Parallel()
	e := &evaluating{}
	ctx := requestOf(t, "shop")
	if err := e.evaluate(ctx, creation, func(context.Context) error { return nil }); err != nil {
		t.Fatalf("what costs nothing: %v", err)
	}
	own := errors.New("denied by a policy")
	if err := e.evaluate(ctx, creation, func(context.Context) error { return own }); !errors.Is(err, own) {
		t.Errorf("what a policy says becomes %v", err)
	}
	fairness.BudgetOf(ctx).Spend(fairness.EvaluationBudget - 50*time.Millisecond)
	ignored := func(ctx context.Context) error { <-ctx.Done(); return nil } // as a failure policy may
	for _, when := range []string{"while it evaluates", "before it does"} {
		err := e.evaluate(ctx, creation, ignored)
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, fairness.CauseEvaluation) || !strings.Contains(err.Error(), "make their expressions cheaper") {
			t.Errorf("the budget ends %s: %v", when, err)
		}
	}
	if err := e.evaluate(requestOf(t, "shop"), creation, func(context.Context) error { return nil }); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

func TestMatchConditionsHaveTheSameBudget(t *testing.T) {
	t.Parallel()
	ctx := requestOf(t, "shop")
	fairness.BudgetOf(ctx).Spend(fairness.EvaluationBudget)
	has := true
	m := &matching{conditions: func(logicalcluster.Name) bool { return has }}
	ignored := func(ctx context.Context) error { <-ctx.Done(); return nil } // as a failure policy may
	if err := m.match(ctx, creation, ignored); !apierrors.HasStatusCause(err, fairness.CauseEvaluation) {
		t.Errorf("webhooks with match conditions: %v", err)
	}
	has = false
	if err := m.match(ctx, creation, func(ctx context.Context) error { return ctx.Err() }); err != nil {
		t.Errorf("webhooks without: %v", err)
	}
}
