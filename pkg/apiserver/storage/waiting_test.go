package storage

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3/kubernetes"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// serving executes each request.
type serving struct{ flowcontrol.Interface }

func (serving) Handle(_ context.Context, _ flowcontrol.RequestDigest, _ func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	_ func() fcrequest.WorkEstimate, _ fq.QueueNoteFn, execute func()) {
	execute()
}

// oneValue is an etcd that answers with one value.
type oneValue struct {
	kubernetes.Interface
	value  []byte
	during func()
}

func (k oneValue) kv() *mvccpb.KeyValue { return &mvccpb.KeyValue{Value: k.value} }

func (k oneValue) Get(context.Context, string, kubernetes.GetOptions) (kubernetes.GetResponse, error) {
	k.during()
	return kubernetes.GetResponse{KV: k.kv()}, nil
}

func (k oneValue) List(context.Context, string, kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	k.during()
	return kubernetes.ListResponse{Kvs: []*mvccpb.KeyValue{k.kv(), k.kv()}}, nil
}

func (k oneValue) OptimisticPut(context.Context, string, []byte, int64, kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	k.during()
	return kubernetes.PutResponse{}, nil
}

func (k oneValue) OptimisticDelete(context.Context, string, int64, kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	k.during()
	return kubernetes.DeleteResponse{}, nil
}

// A request that reads a lot computes with a processor for expensive ones, which others have
// while etcd works for it.
func TestWhoReadsALotNeedsAProcessorForIt(t *testing.T) {
	t.Parallel()
	const large, small = 300 << 10, 100 << 10
	for name, c := range map[string]struct {
		size int
		call func(context.Context, kubernetes.Interface)
		want bool
	}{
		"a large object": {large, func(ctx context.Context, k kubernetes.Interface) { _, _ = k.Get(ctx, "", kubernetes.GetOptions{}) }, true},
		"a small object": {small, func(ctx context.Context, k kubernetes.Interface) { _, _ = k.Get(ctx, "", kubernetes.GetOptions{}) }, false},
		"a list":         {large / 2, func(ctx context.Context, k kubernetes.Interface) { _, _ = k.List(ctx, "", kubernetes.ListOptions{}) }, true},
		"a short list":   {small, func(ctx context.Context, k kubernetes.Interface) { _, _ = k.List(ctx, "", kubernetes.ListOptions{}) }, false},
		"a write, and a delete": {small, func(ctx context.Context, k kubernetes.Interface) {
			if err := fairness.Expensive(ctx); err != nil {
				t.Error(err)
			}
			_, _ = k.OptimisticPut(ctx, "", nil, 0, kubernetes.PutOptions{})
			_, _ = k.OptimisticDelete(ctx, "", 0, kubernetes.DeleteOptions{})
		}, true},
	} {
		limiter := fairness.NewLimiter(func(context.Context, logicalcluster.Name) int64 { return 0 }, func(*http.Request) bool { return false })
		flows := fairness.New(serving{})
		request := func(f func(context.Context)) {
			req := httptest.NewRequestWithContext(scope.WithCluster(t.Context(), "noisy"), http.MethodGet, "/api", nil)
			limiter.With(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				digest := flowcontrol.RequestDigest{User: &user.DefaultInfo{Name: "ann"}}
				flows.Handle(r.Context(), digest, nil, nil, nil, func() { f(r.Context()) })
			})).ServeHTTP(httptest.NewRecorder(), req)
		}
		busy := func() (yes bool) {
			request(func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				done, err := fairness.Evaluate(ctx)
				if yes = err != nil; !yes {
					done()
				}
			})
			return yes
		}
		during := func() {
			if busy() {
				t.Errorf("%s: it computes while etcd works", name)
			}
		}
		request(func(ctx context.Context) {
			c.call(ctx, waiting{oneValue{value: make([]byte, c.size), during: during}})
			// With eight processors or more a logical cluster has several for what is expensive.
			if got := busy(); got != c.want && (got || runtime.GOMAXPROCS(0) < 8) {
				t.Errorf("%s: it is expensive: %v, want %v", name, got, c.want)
			}
		})
	}
}
