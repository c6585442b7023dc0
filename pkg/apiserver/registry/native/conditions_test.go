package native

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestAConditionOfAPhysicalClusterCountsFromWhenItWasStored(t *testing.T) {
	t.Parallel()
	had := metav1.NewTime(time.Now().Add(-time.Minute)).Rfc3339Copy()
	ready := func(kind string, status metav1.ConditionStatus, at metav1.Time) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: fleet.ReasonUnreachable, LastTransitionTime: at}}
	}
	status := statusStrategy{newStrategy(testScheme(), PhysicalCluster())}
	for name, c := range map[string]struct {
		before, written []metav1.Condition
		kept            bool
	}{
		"new, by a clock that is behind":    {nil, ready("Ready", metav1.ConditionFalse, metav1.NewTime(had.Add(-time.Hour))), false},
		"new, by a clock that is ahead":     {nil, ready("Ready", metav1.ConditionFalse, metav1.NewTime(had.Add(time.Hour))), false},
		"changed":                           {ready("Ready", metav1.ConditionTrue, had), ready("Ready", metav1.ConditionFalse, metav1.NewTime(had.Add(-time.Hour))), false},
		"as it was":                         {ready("Ready", metav1.ConditionFalse, had), ready("Ready", metav1.ConditionFalse, had), true},
		"as it was, and said to be of once": {ready("Ready", metav1.ConditionFalse, had), ready("Ready", metav1.ConditionFalse, metav1.NewTime(had.Add(-time.Hour))), false},
		"another one has that time":         {ready("Syncing", metav1.ConditionFalse, had), ready("Ready", metav1.ConditionFalse, had), false},
	} {
		began := metav1.Now().Rfc3339Copy()
		old, obj := &fleet.PhysicalCluster{}, &fleet.PhysicalCluster{}
		old.Status.Conditions, obj.Status.Conditions = c.before, c.written
		status.PrepareForUpdate(t.Context(), obj, old)
		got := obj.Status.Conditions[0].LastTransitionTime
		if c.kept && !got.Equal(&had) || !c.kept && (got.Time.Before(began.Time) || got.Time.After(time.Now())) {
			t.Errorf("%s: since %s", name, got)
		}
	}
}
