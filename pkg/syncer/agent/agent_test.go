package agent

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/go-logr/logr"

	"github.com/atoll-dev/atoll/pkg/skew"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// silence is a server that does not answer.
type silence struct{}

func (silence) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func TestAnAgentThatReachesNobodyEndsWithItsContextAndLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if goroutines are left
		way := &rest.Config{Host: "https://server", Transport: silence{}}
		a, err := New(Config{PhysicalCluster: "east", Upstream: way, Physical: way, Kinds: workload.Builtin(), Identify: func(string, string) (string, func()) { return "me", func() {} }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("it gives up: %v", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// tooOld is a server that an agent does not work with, until it is upgraded.
type tooOld struct {
	mu       sync.Mutex
	version  skew.Side
	requests map[string]int
}

func (s *tooOld) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[req.Method]++
	code, body := http.StatusOK, `{"kind":"PhysicalCluster","apiVersion":"fleet.atoll.dev/v1alpha1","metadata":{"name":"east"},"status":{"controlPlane":"cp-1"}}`
	if strings.Contains(req.URL.Path, "/leases") {
		code, body = http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	return &http.Response{StatusCode: code, Request: req, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}, skew.ServerHeader: {s.version.Header()}}}, nil
}

func TestAnAgentAsksAServerThatIsTooOldSeldomAndWritesNothingUntilItIsUpgraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &tooOld{version: skew.Side{Build: "v1", Revision: 1}, requests: map[string]int{}}
		below := &tooOld{requests: map[string]int{}}
		handshake := connection.NewHandshake(skew.Side{Build: "v9", Revision: 9, Oldest: 8})
		a, err := New(Config{PhysicalCluster: "east", Upstream: &rest.Config{Host: "https://server", Transport: server}, Physical: &rest.Config{Host: "https://below", Transport: below},
			Kinds: workload.Builtin(), Handshake: handshake, Identify: func(string, string) (string, func()) { return "me", func() {} }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		server.mu.Lock()
		if asked := server.requests[http.MethodGet]; asked < 5 || asked > 20 || len(server.requests) != 1 || len(below.requests) != 0 {
			t.Errorf("in a minute it sends %v, and %v below", server.requests, below.requests)
		}
		server.version = skew.Side{Build: "v8", Revision: 8, Oldest: 1}
		server.mu.Unlock()
		if err := handshake.Ready(); !connection.IsIncompatible(err) {
			t.Errorf("it is ready: %v", err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		server.mu.Lock()
		if server.requests[http.MethodPut]+server.requests[http.MethodPost] == 0 {
			t.Errorf("after the server was upgraded it does not ask for the Lease: %v", server.requests)
		}
		server.mu.Unlock()
		if err := handshake.Ready(); err != nil {
			t.Errorf("it is not ready: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAnAgentNeedsAPhysicalClusterAndTwoWays(t *testing.T) {
	way := &rest.Config{Host: "https://server"}
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"no name":      {Config{Upstream: way, Physical: way}, "physical cluster"},
		"a bad name":   {Config{PhysicalCluster: "a/b", Upstream: way, Physical: way}, "a/b"},
		"no way up":    {Config{PhysicalCluster: "east", Physical: way}, "control plane"},
		"no way down":  {Config{PhysicalCluster: "east", Upstream: way}, "physical cluster"},
		"a broken way": {Config{PhysicalCluster: "east", Upstream: &rest.Config{Host: ":\x00"}, Physical: way}, "control plane"},
		"a broken way down": {Config{PhysicalCluster: "east", Upstream: way, Physical: &rest.Config{
			Host: "https://server", TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"},
		}}, "physical cluster"},
	} {
		c.config.Kinds = workload.Builtin()
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
