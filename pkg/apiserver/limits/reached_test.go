package limits

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

func TestWhatIsReachedIsSaid(t *testing.T) {
	t.Parallel()
	l := limits{kept: [classes]amount{objects: {100, 1000}, records: {100, 1000}, definitions: {10, 500}}}
	for name, c := range map[string]struct {
		use          [classes]amount
		reason, says string
	}{
		"nothing":             {[classes]amount{objects: {99, 989}, records: {99, 989}, definitions: {9, 494}}, "", ""},
		"objects":             {[classes]amount{objects: {100, 10}}, ReasonObjects, "it has as many objects as spec.limits.objects permits (100)"},
		"bytes of objects":    {[classes]amount{objects: {1, 990}}, ReasonObjects, "it has as many bytes of objects as spec.limits.bytes permits (1000)"},
		"definitions":         {[classes]amount{definitions: {10, 1}}, ReasonDefinitions, "it has as many CustomResourceDefinitions as spec.limits.definitions permits (10)"},
		"records":             {[classes]amount{records: {149, 1}}, ReasonRecords, "it has as many " + recordsAre + " as spec.limits.objects permits (100)"},
		"no more records":     {[classes]amount{records: {150, 1}}, ReasonNoMoreRecords, "it has half as many " + recordsAre + " again as spec.limits.objects permits (100): " + notCarried},
		"no room for records": {[classes]amount{records: {1, 1490}}, ReasonNoMoreRecords, "it has half as many bytes of " + recordsAre + " again as spec.limits.bytes permits (1000): " + notCarried},
		"several": {
			[classes]amount{objects: {100, 10}, records: {100, 10}}, ReasonObjects,
			"it has as many objects as spec.limits.objects permits (100); it has as many " + recordsAre + " as spec.limits.objects permits (100)",
		},
	} {
		reason, says := reached(c.use, l)
		if diff := cmp.Diff([]string{c.reason, c.says}, []string{reason, says}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if reason, says := reached([classes]amount{objects: {1 << 40, 1 << 50}, records: {1 << 40, 1 << 50}}, unlimited()); reason != "" {
		t.Errorf("without limits: %s, %s", reason, says)
	}
}

func TestTheConditionIsThereOnceALimitWasReached(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	lc := &tenancy.LogicalCluster{}
	lc.Generation = 3
	lc.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Serving"}}
	l := of(tenancy.LogicalClusterLimits{Objects: 100})
	look := func(count int64) bool {
		conditions, changed := withReached(lc, [classes]amount{objects: {count, 1}}, l, now)
		if changed {
			lc.Status.Conditions = conditions
		}
		return changed
	}
	is := func() string {
		c := meta.FindStatusCondition(lc.Status.Conditions, ConditionLimitsReached)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	for _, step := range []struct {
		count   int64
		changed bool
		want    string
	}{{99, false, ""}, {100, true, "True Objects"}, {105, false, "True Objects"}, {99, true, "False WithinLimits"}, {10, false, "False WithinLimits"}, {101, true, "True Objects"}} {
		if changed := look(step.count); changed != step.changed || is() != step.want {
			t.Errorf("with %d: changed %t, %q; want %t, %q", step.count, changed, is(), step.changed, step.want)
		}
	}
	if !meta.IsStatusConditionTrue(lc.Status.Conditions, "Ready") {
		t.Errorf("the other conditions are %v", lc.Status.Conditions)
	}
}

// warnings collects them.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestWhoMakesWhatNobodyCanRecordIsWarned(t *testing.T) {
	t.Parallel()
	c := counting()
	c.tally = newTally()
	for i, want := range []int{0, 0, 0, 1} {
		var said warnings
		c.warn(warning.WithWarningRecorder(context.Background(), &said), "shop")
		if len(said) != want {
			t.Errorf("with %d records: %q", i, said)
		}
		for _, text := range said {
			if !strings.Contains(text, "spec.limits.objects") || !strings.Contains(text, `"shop"`) {
				t.Errorf("it says %q", text)
			}
		}
		c.Written("/registry/pods/shop/default/pod-"+string(rune('a'+i)), []byte("{}"))
	}
}
