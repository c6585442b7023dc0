package fairness

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// served is a server that serves one request at a time, each for a while.
type served struct {
	flowcontrol.Interface
	mu    sync.Mutex
	order []string
}

// one is what a small request costs.
func one() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{InitialSeats: 1} }

func (s *served) ask(ctx context.Context, cluster, name string, took time.Duration) (schema, flow string, done bool) {
	ctx = scope.WithCluster(ctx, logicalcluster.Name(cluster))
	digest := flowcontrol.RequestDigest{
		RequestInfo: &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: "configmaps", Namespace: "default"},
		User:        &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}},
	}
	s.Handle(ctx, digest, func(fs *flowcontrolv1.FlowSchema, _ *flowcontrolv1.PriorityLevelConfiguration, distinguisher string) {
		schema, flow = fs.Name, distinguisher
	}, one, func(bool) {}, func() {
		done = true
		s.mu.Lock()
		s.order = append(s.order, cluster)
		s.mu.Unlock()
		time.Sleep(took)
	})
	return schema, flow, done
}

func start(t *testing.T) *served {
	t.Helper()
	client := fake.NewClientset()
	if err := Ensure(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &served{Interface: New(flowcontrol.New(factory, client.FlowcontrolV1(), 1))}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	go func() { _ = s.Run(t.Context().Done()) }()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if schema, _, _ := s.ask(t.Context(), "probe", "probe", 0); schema == "atoll-logical-clusters" {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal("the flow schemas are not in use")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestALogicalClusterIsAFlow(t *testing.T) {
	s := start(t)
	for _, c := range []string{"shop", "web"} {
		for _, who := range []string{"ann", "bob"} {
			if schema, flow, done := s.ask(t.Context(), c, who, 0); schema != "atoll-logical-clusters" || flow != c || !done {
				t.Errorf("%s in %s: schema %s, flow %q, done %v", who, c, schema, flow, done)
			}
		}
	}
}

// TestANoisyLogicalClusterWaitsForItself floods a server that serves few requests at a
// time from one logical cluster, as many users, and then asks from another.
func TestANoisyLogicalClusterWaitsForItself(t *testing.T) {
	s := start(t)
	const flood = 150
	var all sync.WaitGroup
	s.order = nil
	for i := range flood {
		all.Go(func() { s.ask(t.Context(), "noisy", fmt.Sprintf("user-%d", i), 4*time.Millisecond) })
	}
	deadline := time.Now().Add(10 * time.Second)
	for { // until the noisy one is being served
		s.mu.Lock()
		n := len(s.order)
		s.mu.Unlock()
		if n > 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody is served")
		}
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	before := len(s.order)
	s.mu.Unlock()
	if _, _, done := s.ask(t.Context(), "quiet", "q", 0); !done {
		t.Fatal("the quiet logical cluster is refused")
	}
	s.mu.Lock()
	position := -1
	for i, c := range s.order {
		if c == "quiet" {
			position = i - before
		}
	}
	s.mu.Unlock()
	all.Wait()
	t.Logf("%d requests of the noisy logical cluster were served while the quiet one waited, of %d that were there before it", position, flood-before)
	if position < 0 || position > flood/3 {
		t.Errorf("the quiet logical cluster waited for %d requests of the noisy one", position)
	}
}
