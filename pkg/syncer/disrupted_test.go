package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const aBudget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: a, namespace: web, uid: u, generation: 1, annotations: {placement.atoll.dev/targets: '{"east":{}}'}}
status:
  observedGeneration: 1
  disruptionsAllowed: 0
  currentHealthy: 1
  desiredHealthy: 1
  expectedPods: 1
  disruptedPods: {old: "2030-01-01T00:00:00Z", new: "2030-01-01T00:02:00Z"}
`

func TestWhatWasEvictedAboveStaysNotedWhenCopiesReport(t *testing.T) {
	budget := parse(t, aBudget)
	c := &placementv1alpha1.Copy{}
	c.Spec.PhysicalCluster, c.Spec.Object.UID = "east", "u"
	c.Status.ObservedGeneration = 1
	c.Status.Observed = &runtime.RawExtension{Raw: []byte(`{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1,"disruptedPods":{"below":"2030-01-01T00:01:00Z"}}`)}
	status, changed := Summarize(kindOf(t, budget), budget, []*placementv1alpha1.Copy{c}, someTime)
	want := map[string]any{"old": "2030-01-01T00:00:00Z", "new": "2030-01-01T00:02:00Z", "below": "2030-01-01T00:01:00Z"}
	if diff := cmp.Diff(want, field(status, "disruptedPods")); diff != "" || !changed {
		t.Errorf("changed %v (-want +got)\n%s", changed, diff)
	}
	if allowed := status["disruptionsAllowed"]; allowed != int64(1) {
		t.Errorf("it allows %v disruptions", allowed)
	}
}

func TestEvictionsThatAreOverAreForgotten(t *testing.T) {
	budget := parse(t, aBudget)
	changed, left := Forget(kindOf(t, budget), budget, time.Date(2030, 1, 1, 0, 2, 30, 0, time.UTC))
	want := map[string]any{"new": "2030-01-01T00:02:00Z"}
	if diff := cmp.Diff(want, field(field(budget.Object, "status"), "disruptedPods")); diff != "" || !changed || left != 90*time.Second {
		t.Errorf("changed %v, %s left (-want +got)\n%s", changed, left, diff)
	}
}
