package loopback_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/apiserver/loopback"
	"github.com/atoll-dev/atoll/pkg/scope"
)

type executing struct{ flowcontrol.Interface }

func (executing) Handle(_ context.Context, _ flowcontrol.RequestDigest, _ func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() fcrequest.WorkEstimate, _ fq.QueueNoteFn, execute func()) {
	execute()
}

// An expensive request that has the server ask itself, as admission does, holds up nothing that
// this takes: policies are evaluated for what it asks, on the same processors.
func TestWhoAsksWhileHeIsServedHoldsNoProcessor(t *testing.T) {
	t.Parallel()
	limiter := fairness.NewLimiter(func(context.Context, logicalcluster.Name) int64 { return 0 }, loopback.Is)
	flows := fairness.New(executing{})
	inner := 0
	transport := loopback.NewTransport()
	transport.Serve(limiter.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inner++
		ctx, cancel := context.WithTimeout(scope.WithCluster(r.Context(), "shop"), 5*time.Second)
		defer cancel()
		done, err := fairness.Evaluate(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		done()
	})))
	request := httptest.NewRequestWithContext(scope.WithCluster(t.Context(), "shop"), http.MethodPost, "/api", nil)
	limiter.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		flows.Handle(r.Context(), flowcontrol.RequestDigest{User: &user.DefaultInfo{Name: "ann"}}, nil, nil, nil, func() {
			if err := fairness.Expensive(r.Context()); err != nil {
				t.Error(err)
			}
			ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "https://server/api", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := transport.RoundTrip(ask)
			if err != nil {
				t.Error(err)
				return
			}
			_ = answer.Body.Close()
		})
	})).ServeHTTP(httptest.NewRecorder(), request)
	if inner != 1 {
		t.Errorf("the server was asked %d times", inner)
	}
}
