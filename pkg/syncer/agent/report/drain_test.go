package report

import (
	"net/http"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection/connectiontest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Of a drained physical cluster, once nothing is placed on it:
//
//	a list      Ready                        the evidence
//	is there    True                         what was found
//	fails       False, with what it answers  as before, and it is asked again
//	not found   the same, if it is served
func TestWhatIsLeftIsLookedForOnceNothingIsPlacedThere(t *testing.T) {
	const secrets = "/api/v1/secrets"
	east := connectiontest.NewClusterServer(t, "e", true)
	r := register(t, east)
	r.report("False Identifying", "")
	r.accept()
	r.reporter.kinds = workload.Builtin()
	seen := func() *fleetv1alpha1.DrainEvidence { return r.get().Status.Drain.Seen }

	r.change(func(pc *fleetv1alpha1.PhysicalCluster) {
		pc.Spec.Drain.Requested = true
		pc.Status.Drain = &fleetv1alpha1.DrainStatus{Namespaces: 1}
	})
	east.Set(func() { east.Fails = map[string]int{secrets: http.StatusServiceUnavailable} })
	r.report("True Heartbeat", "e")
	if seen() != nil {
		t.Errorf("what is placed there is looked at: %+v", seen())
	}

	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.Drain.Namespaces = 0 })
	r.report("False Unreachable", "e")
	ready := apimeta.FindStatusCondition(r.get().Status.Conditions, fleetv1alpha1.ConditionReady)
	if !strings.Contains(ready.Message, "answers with 503") || seen() != nil {
		t.Errorf("it says %q, and has found %+v", ready.Message, seen())
	}

	east.Set(func() { east.Fails = map[string]int{"/api/v1/pods": http.StatusNotFound} }) // and yet it serves them
	r.report("False Unreachable", "e")
	if seen() != nil {
		t.Errorf("it has found %+v", seen())
	}

	east.Set(func() { east.Fails = nil })
	r.report("True Heartbeat", "e")
	if seen() == nil || seen().Objects != 0 {
		t.Fatalf("it has found %+v", seen())
	}

	// What was found stands, unless the server waits for a look that is newer.
	first := metav1.NewTime(seen().At.Add(-time.Hour))
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.Drain.Seen.At = first })
	r.report("True Heartbeat", "e")
	if !seen().At.Equal(&first) {
		t.Errorf("the same is written again: %+v", seen())
	}
	r.change(func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.Drain.Seen = nil })
	r.report("True Heartbeat", "e")
	if seen() == nil || seen().At.Equal(&first) {
		t.Errorf("it is not looked at again: %+v", seen())
	}
}
