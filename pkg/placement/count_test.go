package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func lists(t *testing.T, cpu, memory string) corev1.ResourceList {
	t.Helper()
	out := corev1.ResourceList{}
	for name, n := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if n != "" {
			out[name] = resource.MustParse(n)
		}
	}
	return out
}

func TestAUnitCountsForNoMoreThanItWasLetInWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ letIn, now, want corev1.ResourceList }{
		"nothing, from before this was stored": {nil, lists(t, "9", "9"), corev1.ResourceList{}},
		"what it requests is not known":        {lists(t, "2", "1Gi"), nil, lists(t, "2", "1Gi")},
		"it requests the same":                 {lists(t, "2", "1Gi"), lists(t, "2", "1Gi"), lists(t, "2", "1Gi")},
		"it was scaled down":                   {lists(t, "2", "1Gi"), lists(t, "500m", "1Gi"), lists(t, "500m", "1Gi")},
		"it was scaled to nothing":             {lists(t, "2", ""), lists(t, "0", ""), lists(t, "0", "")},
		"it was scaled up":                     {lists(t, "2", "1Gi"), lists(t, "1k", "1Gi"), lists(t, "2", "1Gi")},
		"it requests something else now":       {lists(t, "2", ""), lists(t, "1", "9Gi"), lists(t, "1", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Counted(placementv1alpha1.DecidedPhysicalCluster{Requests: test.letIn}, test.now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Who has another decision made when it has grown does not count for more where it stays: nobody looked
// for room there.
func TestWhatStaysCountsForWhatItWasLetInWith(t *testing.T) {
	t.Parallel()
	before := Decision{PhysicalClusters: []string{"east", "north"}, Requests: lists(t, "1", "")}.API()
	d := KeepCounted(Decision{PhysicalClusters: []string{"east", "west"}, Requests: lists(t, "1k", "")}.API(), before)
	want := []placementv1alpha1.DecidedPhysicalCluster{{Name: "east", Requests: lists(t, "1", "")}, {Name: "west", Requests: lists(t, "1k", "")}}
	if diff := cmp.Diff(want, d.PhysicalClusters); diff != "" {
		t.Error(diff)
	}
	if KeepCounted(nil, before) != nil {
		t.Error("nothing is decided")
	}
	if first := (Decision{PhysicalClusters: []string{"east"}, Requests: lists(t, "1", "")}).API(); cmp.Diff(first, KeepCounted(first, nil)) != "" {
		t.Errorf("the first one is %+v", first)
	}
}

func TestOfDividedReplicasEachHasAShare(t *testing.T) {
	t.Parallel()
	d := Decision{PhysicalClusters: []string{"east", "west"}, Division: &placementv1alpha1.DecidedDivision{}}.API()
	if diff := cmp.Diff(lists(t, "1500m", ""), OfShare(lists(t, "3", ""), d)); diff != "" {
		t.Error(diff)
	}
	d.Division = nil
	if diff := cmp.Diff(lists(t, "3", ""), OfShare(lists(t, "3", ""), d)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatHasEndedRequestsNothing(t *testing.T) {
	t.Parallel()
	kind := workload.Kind{PodTemplate: []string{"spec", "template"}}
	kind.Finished.Conditions = []string{"Complete"}
	job := func(cpu, complete string) map[string]any {
		container := map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}
		return map[string]any{
			"spec":   map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": complete}}},
		}
	}
	for _, c := range []struct {
		cpu, complete, want string
		known               bool
	}{{"2", "False", "2", true}, {"2", "True", "0", true}, {"much", "False", "0", false}} {
		requests, known := RequestsNow(kind, job(c.cpu, c.complete))
		if q := requests[corev1.ResourceCPU]; known != c.known || q.String() != c.want {
			t.Errorf("%+v: it requests %s, known: %v", c, q.String(), known)
		}
	}
}
