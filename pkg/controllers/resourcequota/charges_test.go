package resourcequota

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestACountWaitsForChargesToSettleButNotForEver(t *testing.T) {
	key, other := controller.Request{Cluster: "a", Namespace: "n", Name: "q"}, controller.Request{Cluster: "b", Namespace: "n", Name: "q"}
	now := time.Unix(1000, 0)
	c := newCharges()
	if wait := c.wait(key, now); wait != 0 {
		t.Errorf("waits %s without a charge", wait)
	}
	c.note(key, now)
	if wait := c.wait(key, now.Add(100*time.Millisecond)); wait != settleDelay-100*time.Millisecond {
		t.Errorf("waits %s after a charge", wait)
	}
	if wait := c.wait(other, now); wait != 0 {
		t.Errorf("waits %s for the charge of another logical cluster", wait)
	}
	if wait := c.wait(key, now.Add(settleDelay)); wait != 0 {
		t.Errorf("waits %s for a charge that has settled", wait)
	}
	var waits []time.Duration
	for range maxSettle + 2 { // somebody charges all the time
		c.note(key, now)
		waits = append(waits, c.wait(key, now))
	}
	if diff := cmp.Diff([]time.Duration{settleDelay, settleDelay, settleDelay, 0, settleDelay}, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestAQuotaTracksTheResourcesThatItLimits(t *testing.T) {
	for _, tc := range []struct {
		hard     string
		resource schema.GroupResource
		want     bool
	}{
		{"requests.cpu", schema.GroupResource{Resource: "pods"}, true},
		{"count/pods", schema.GroupResource{Resource: "pods"}, true},
		{"pods", schema.GroupResource{Resource: "services"}, false},
		{"services.nodeports", schema.GroupResource{Resource: "services"}, true},
		{"configmaps", schema.GroupResource{Resource: "configmaps"}, true},
		{"count/widgets.example.com", schema.GroupResource{Group: "example.com", Resource: "widgets"}, true},
		{"count/widgets.example.com", schema.GroupResource{Group: "other.com", Resource: "widgets"}, false},
		{"fast.storageclass.storage.k8s.io/requests.storage", schema.GroupResource{Resource: "persistentvolumeclaims"}, true},
	} {
		quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(tc.hard): resource.MustParse("1")}}}
		if got := tracks(quota, tc.resource); got != tc.want {
			t.Errorf("a quota of %s tracks %s: %v, want %v", tc.hard, tc.resource, got, tc.want)
		}
	}
}
