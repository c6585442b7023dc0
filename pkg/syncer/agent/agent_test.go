package agent

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/go-logr/logr"

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
