package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// A physical cluster answers that it is there, and nothing else: it does not end what it begins, and has
// clients wait for an hour. That is said while it lasts; nobody waits for what was asked then once it answers.
func TestAPhysicalClusterThatAnswersInPartIsSaidAndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	below := theLab.addPhysical(t, "unfinished")
	between := startProxy(t, below.Kubeconfig)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	between.put(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api" && r.URL.Path != "/apis" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select { // also when the fault is over
		case <-r.Context().Done():
		case <-over:
		}
		return true
	})
	if err := theLab.register(ctx, below.name, between.kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	t.Cleanup(func() {
		must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/"+below.name, "--timeout=3m"))
	})
	eventually(t, func() error { return ready(t, below.name, fleetv1alpha1.ReasonUnreachable) })
	t.Logf("unreachable after %s", time.Since(began))

	between.put(func(w http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		if r.Method != http.MethodGet || query.Get("watch") != "" || !strings.HasSuffix(r.URL.Path, "/deployments") {
			return false
		}
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return true
	})
	eventually(t, func() error { return ready(t, below.name, fleetv1alpha1.ReasonHeartbeat) })
	t.Logf("ready after %s", time.Since(began))
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster="+below.name))
	must(t)(k.Apply(ctx, deployment("app", 1)))
	eventually(t, func() error {
		c := meta.FindStatusCondition(physical(t, below.name).Status.Conditions, fleetv1alpha1.ConditionSyncing)
		if c == nil || !strings.Contains(c.Message, "deployments") {
			return fmt.Errorf("it syncs: %+v", c)
		}
		return nil
	})
	between.put(nil)
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	t.Logf("synced after %s", time.Since(began))
}
