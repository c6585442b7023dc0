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
	synced, here := in(placementv1alpha1.CopySynced), object(`{"east":{}}`, false)
	for _, c := range []struct {
		name string
		rule Rule
		want Standing
	}{
		{"not for this target", Rule{Kind: quotas, Logical: object(`{"west":{}}`, false)}, RuleHolds},
		{"leaves this target", Rule{Kind: quotas, Logical: object(`{"east":{"state":"Removing"}}`, false), Copy: synced}, RuleHolds},
		{"is being deleted", Rule{Kind: quotas, Logical: object(`{"east":{}}`, true)}, RuleHolds},
		{"no record yet", Rule{Kind: limits, Logical: here}, RuleComes},
		{"is on its way", Rule{Kind: limits, Logical: here, Copy: in(placementv1alpha1.CopyPending)}, RuleComes},
		{"is being made again", Rule{Kind: limits, Logical: here, Copy: in(placementv1alpha1.CopyRemoving)}, RuleComes},
		{"was refused", Rule{Kind: quotas, Logical: here, Copy: in(placementv1alpha1.CopyFailed)}, RuleHolds},
		{"limits that are there", Rule{Kind: limits, Logical: here, Copy: synced}, RuleHolds},
		{"a quota that is not seen yet", Rule{Kind: quotas, Logical: here, Copy: synced}, RuleCounts},
		{"a quota that is not counted", Rule{Kind: quotas, Logical: here, Copy: synced, Physical: quota(false), Waited: counting}, RuleCounts},
		{"a quota that nobody counts", Rule{Kind: quotas, Logical: here, Copy: synced, Physical: quota(false), Waited: counting + 1}, RuleHolds},
		{"a quota that is counted", Rule{Kind: quotas, Logical: here, Copy: synced, Physical: quota(true)}, RuleHolds},
	} {
		if got := c.rule.Standing("east"); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
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
