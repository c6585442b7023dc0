package native

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// When a taint counts from:
//
//	effect      before                 written with a time  then
//	NoExecute   not there              no                   now
//	NoExecute   not there              yes                  as written
//	NoExecute   the same               no                   as before
//	NoExecute   with another value     no                   now
//	others      any                    no                   never
func TestATaintCountsFromWhenItWasAdded(t *testing.T) {
	t.Parallel()
	earlier, written := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	taint := func(value string, effect corev1.TaintEffect, added *metav1.Time) corev1.Taint {
		return corev1.Taint{Key: "k", Value: value, Effect: effect, TimeAdded: added}
	}
	main := newStrategy(testScheme(), PhysicalCluster())
	for name, c := range map[string]struct {
		old  []corev1.Taint
		new  corev1.Taint
		want *metav1.Time // nil for now
	}{
		"new":                        {nil, taint("a", corev1.TaintEffectNoExecute, nil), nil},
		"new with a time":            {nil, taint("a", corev1.TaintEffectNoExecute, &written), &written},
		"applied again":              {[]corev1.Taint{taint("a", corev1.TaintEffectNoExecute, &earlier)}, taint("a", corev1.TaintEffectNoExecute, nil), &earlier},
		"from before there was time": {[]corev1.Taint{taint("a", corev1.TaintEffectNoExecute, nil)}, taint("a", corev1.TaintEffectNoExecute, nil), nil},
		"with another value":         {[]corev1.Taint{taint("a", corev1.TaintEffectNoExecute, &earlier)}, taint("b", corev1.TaintEffectNoExecute, nil), nil},
	} {
		before := time.Now().Add(-time.Second)
		old, obj := &fleet.PhysicalCluster{}, &fleet.PhysicalCluster{}
		old.Spec.Taints, obj.Spec.Taints = c.old, []corev1.Taint{c.new}
		main.PrepareForUpdate(t.Context(), obj, old)
		got := obj.Spec.Taints[0].TimeAdded
		if c.want != nil && !got.Equal(c.want) || c.want == nil && (got == nil || got.Time.Before(before)) {
			t.Errorf("%s: %s", name, got)
		}
	}
	obj := &fleet.PhysicalCluster{}
	obj.Spec.Taints = []corev1.Taint{taint("a", corev1.TaintEffectNoSchedule, nil)}
	main.PrepareForCreate(t.Context(), obj)
	if obj.Spec.Taints[0].TimeAdded != nil {
		t.Errorf("a taint that nothing leaves for counts from %s", obj.Spec.Taints[0].TimeAdded)
	}
}
