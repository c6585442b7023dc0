package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Each physical cluster reports every few seconds: what follows must be what has changed, and nothing else.
func TestAHeartbeatIsNoNews(t *testing.T) {
	t.Parallel()
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	for name, test := range map[string]struct {
		change                   func(*fleetv1alpha1.PhysicalCluster)
		undecided, bootstrapping bool
	}{
		"nothing":      {change: func(*fleetv1alpha1.PhysicalCluster) {}},
		"a heartbeat":  {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Status.Conditions[0].LastTransitionTime = metav1.Now() }},
		"another word": {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Status.Conditions[0].Message = "all is well" }},
		"pods came":    {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Status.Requested = cpu }, undecided: true},
		"a node came":  {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Status.Allocatable = cpu }, undecided: true},
		"it is ready no more": {
			change: func(c *fleetv1alpha1.PhysicalCluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, undecided: true, bootstrapping: true,
		},
		"it serves more":      {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Status.APIs = []string{"apps/v1/deployments"} }, undecided: true, bootstrapping: true},
		"it has a label":      {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Labels = map[string]string{"zone": "a"} }, undecided: true, bootstrapping: true},
		"it has another spec": {change: func(c *fleetv1alpha1.PhysicalCluster) { c.Generation++ }, undecided: true, bootstrapping: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := &fleetv1alpha1.PhysicalCluster{}
			old.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			kept, next := old.DeepCopy(), old.DeepCopy()
			test.change(next)
			if undecided, more := mayChangeDecisions(old, next), mayChangeMore(old, next); undecided != test.undecided || more != test.bootstrapping {
				t.Errorf("undecided units are looked at: %v; what is bootstrapped: %v", undecided, more)
			}
			if old.Status.Conditions[0] != kept.Status.Conditions[0] {
				t.Error("what the informer has was changed")
			}
		})
	}
}
