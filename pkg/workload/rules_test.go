package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAQuotaRulesOnOnePhysicalClusterAndALimitOnAll(t *testing.T) {
	for _, c := range []struct {
		kind    string
		targets int
		want    bool
	}{
		{"ResourceQuota", 1, true}, {"ResourceQuota", 2, false}, {"LimitRange", 1, true}, {"LimitRange", 2, true}, {"Secret", 1, false},
	} {
		kind, _ := Builtin().ByKind(schema.GroupKind{Kind: c.kind})
		if got := Rules(kind, c.targets); got != c.want {
			t.Errorf("%s on %d: %v", c.kind, c.targets, got)
		}
	}
}

func TestWhatAQuotaMeasuresBelowIsWhatPodsAndClaimsUse(t *testing.T) {
	for name, want := range map[string]bool{
		"pods": true, "cpu": true, "requests.memory": true, "limits.cpu": true, "requests.nvidia.com/gpu": true, "hugepages-2Mi": true,
		"persistentvolumeclaims": true, "requests.storage": true, "gold.storageclass.storage.k8s.io/requests.storage": true,
		"count/replicasets.apps": true, "count/jobs.batch": true,
		"services": false, "services.nodeports": false, "configmaps": false, "secrets": false, "resourcequotas": false,
		"replicationcontrollers": false, "count/deployments.apps": false, "count/widgets.example.com": false,
	} {
		if got := MeasuredBelow(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
