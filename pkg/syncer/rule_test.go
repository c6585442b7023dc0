package syncer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestWhatIsRuledWaitsUntilTheRuleHolds(t *testing.T) {
	quotas, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "ResourceQuota"})
	limits, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "LimitRange"})
	object := func(targets string, deleting bool) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
		if deleting {
			u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		}
		return u
	}
	in := func(s placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		return &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: s}}
	}
	quota := func(counted bool) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hard": map[string]any{"pods": "2"}}}}
		if counted {
			u.Object["status"] = u.Object["spec"]
		}
		return u
	}
	began := time.Unix(1000, 0)
	synced, here := in(placementv1alpha1.CopySynced), object(`{"east":{}}`, false)
	for _, c := range []struct {
		name string
		rule Rule
		want Standing
		// uncounted is what is to be remembered.
		uncounted time.Time
	}{
		{"not for this target", Rule{Kind: quotas, Logical: object(`{"west":{}}`, false)}, RuleHolds, time.Time{}},
		{"leaves this target", Rule{Kind: quotas, Logical: object(`{"east":{"state":"Removing"}}`, false), Copy: synced}, RuleHolds, time.Time{}},
		{"is being deleted", Rule{Kind: quotas, Logical: object(`{"east":{}}`, true)}, RuleHolds, time.Time{}},
		{"no record yet", Rule{Kind: limits, Logical: here}, RuleComes, time.Time{}},
		{"is on its way", Rule{Kind: limits, Logical: here, Copy: in(placementv1alpha1.CopyPending)}, RuleComes, time.Time{}},
		{"is being made again", Rule{Kind: limits, Logical: here, Copy: in(placementv1alpha1.CopyRemoving)}, RuleComes, time.Time{}},
		{"was refused", Rule{Kind: quotas, Logical: here, Copy: in(placementv1alpha1.CopyFailed)}, RuleHolds, time.Time{}},
		{"limits that are there", Rule{Kind: limits, Logical: here, Copy: synced}, RuleHolds, time.Time{}},
		{"a quota that is not seen yet", Rule{Kind: quotas, Logical: here, Copy: synced, Now: began}, RuleCounts, began},
		{"a quota that is not counted", Rule{Kind: quotas, Logical: here, Copy: synced, Physical: quota(false), Uncounted: began, Now: began.Add(counting)}, RuleCounts, began},
		{"a quota that nobody counts", Rule{Kind: quotas, Logical: here, Copy: synced, Physical: quota(false), Uncounted: began, Now: began.Add(counting + 1)}, RuleHolds, began},
		{"a quota that is counted", Rule{Kind: quotas, Logical: here, Copy: synced, Physical: quota(true), Uncounted: began, Now: began}, RuleHolds, time.Time{}},
	} {
		got, uncounted := c.rule.Standing("east")
		if got != c.want || !uncounted.Equal(c.uncounted) {
			t.Errorf("%s: %s, uncounted since %s, want %s, %s", c.name, got, uncounted, c.want, c.uncounted)
		}
	}
}

func TestAQuotaIsEnforcedOnceAllItAsksForIsCounted(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name         string
		spec, status m
		want         bool
	}{
		{"no status", m{"hard": m{"pods": "2"}}, nil, false},
		{"an empty status", m{"hard": m{"pods": "2"}}, m{}, false},
		{"a name too few", m{"hard": m{"pods": "2", "limits.cpu": "1"}}, m{"hard": m{"pods": "2"}}, false},
		{"all", m{"hard": m{"pods": "2"}}, m{"hard": m{"pods": "2"}, "used": m{"pods": "0"}}, true},
		{"an older bound", m{"hard": m{"pods": "2"}}, m{"hard": m{"pods": "3"}}, true},
		{"nothing is asked for", m{}, nil, true},
	} {
		if got := enforced(&unstructured.Unstructured{Object: m{"spec": c.spec, "status": c.status}}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
