package crds

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/apiserver/crds/work"
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
	b, budget := beforeRules{rules: true}, fairness.BudgetOf(ctx)
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

func TestWhatIsValidatedDecidesWhoNeedsAProcessor(t *testing.T) {
	t.Parallel()
	heavy := work.Of(&apiextensions.JSONSchemaProps{Properties: map[string]apiextensions.JSONSchemaProps{
		"spec":   {Properties: map[string]apiextensions.JSONSchemaProps{"text": {Pattern: "^(.?){1000}$"}}},
		"status": {Properties: map[string]apiextensions.JSONSchemaProps{"text": {Pattern: "^(.?){1000}$"}}},
	}})
	with := func(spec, status int) *unstructured.Unstructured {
		text := func(n int) map[string]any { return map[string]any{"text": strings.Repeat("a", n)} }
		return &unstructured.Unstructured{Object: map[string]any{"spec": text(spec), "status": text(status)}}
	}
	scale := &autoscalingv1.Scale{}
	for name, c := range map[string]struct {
		now, old    runtime.Object
		subresource string
		rules       bool
		want        string
	}{
		"a small one":                       {with(10, 10), nil, "", false, "at once"},
		"a small one, with rules":           {with(10, 10), nil, "", true, "computed"},
		"a large one":                       {with(60_000, 0), nil, "", false, "computed"},
		"too much":                          {with(1_400_000, 0), nil, "", false, "refused"},
		"too much, with rules":              {with(1_400_000, 0), nil, "", true, "refused"},
		"a status":                          {with(0, 10), with(10, 0), "status", false, "at once"},
		"a status of a large one":           {with(0, 10), with(60_000, 0), "status", false, "computed"},
		"a status, in place of a large one": {with(0, 10), with(10, 60_000), "status", false, "at once"},
		"what is sent with a status":        {with(60_000, 10), with(10, 0), "status", false, "at once"},
		"a scale":                           {scale, scale, "scale", false, "computed"},
	} {
		ctx := requestOf(t)
		a := admission.NewAttributesRecord(c.now, c.old, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "default", "made",
			schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, c.subresource, admission.Update, nil, false, nil)
		got := "at once"
		switch err := (beforeRules{rules: c.rules, schemas: map[string]*work.Schema{"v1": heavy}}).Admit(ctx, a, nil); {
		case apierrors.HasStatusCause(err, causeWork):
			got = "refused"
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if fairness.BudgetOf(ctx).Stop(); fairness.BudgetOf(ctx).Left() < fairness.EvaluationBudget {
				got = "computed" // the budget is spent with a processor only
			}
		}
		if got != c.want {
			t.Errorf("%s is %s, want %s", name, got, c.want)
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
