package syncerguard_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/admission/syncerguard"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func listed(n int) (items []string) {
	for i := range n {
		items = append(items, fmt.Sprint("item-", i))
	}
	return items
}

func TestWhatAStatusListsIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status fleetv1alpha1.PhysicalClusterStatus
		want   string
	}{
		"a large physical cluster": {status: fleetv1alpha1.PhysicalClusterStatus{APIs: listed(5000), PodCIDRs: listed(5000), NodeCIDRs: listed(10_000), StorageClasses: listed(100)}},
		"kinds without end":        {fleetv1alpha1.PhysicalClusterStatus{APIs: listed(10_001)}, "up to 10000 in status.apis, not 10001"},
		"a long version":           {fleetv1alpha1.PhysicalClusterStatus{Version: strings.Repeat("v", 513)}, "up to 512 bytes in each of status.version, not 513"},
		"a long storage class":     {fleetv1alpha1.PhysicalClusterStatus{StorageClasses: []string{strings.Repeat("v", 513)}}, "status.storageClasses"},
		"handlers":                 {status: fleetv1alpha1.PhysicalClusterStatus{RuntimeHandlers: &fleetv1alpha1.ReportedNames{Names: listed(1000)}}},
		"handlers without end":     {fleetv1alpha1.PhysicalClusterStatus{RuntimeHandlers: &fleetv1alpha1.ReportedNames{Names: listed(1001)}}, "up to 1000 in status.runtimeHandlers.names, not 1001"},
		"ingress classes":          {fleetv1alpha1.PhysicalClusterStatus{IngressClasses: &fleetv1alpha1.ReportedNames{Names: listed(1001)}}, "up to 1000 in status.ingressClasses.names, not 1001"},
		"priority classes":         {fleetv1alpha1.PhysicalClusterStatus{PriorityClasses: &fleetv1alpha1.ReportedNames{Names: listed(1001)}}, "up to 1000 in status.priorityClasses.names, not 1001"},
		"a long handler":           {fleetv1alpha1.PhysicalClusterStatus{RuntimeHandlers: &fleetv1alpha1.ReportedNames{Names: []string{strings.Repeat("v", 513)}}}, "status.runtimeHandlers.names"},
		"a long snapshot class":    {fleetv1alpha1.PhysicalClusterStatus{VolumeSnapshotClasses: &fleetv1alpha1.ReportedSnapshotClasses{Classes: []fleetv1alpha1.SnapshotClass{{Driver: strings.Repeat("v", 513)}}}}, "status.volumeSnapshotClasses.classes"},
		"snapshot classes":         {fleetv1alpha1.PhysicalClusterStatus{VolumeSnapshotClasses: &fleetv1alpha1.ReportedSnapshotClasses{Classes: make([]fleetv1alpha1.SnapshotClass, 1001)}}, "in status.volumeSnapshotClasses.classes, not 3003"},
		"conditions without end":   {fleetv1alpha1.PhysicalClusterStatus{Conditions: make([]metav1.Condition, 33)}, "status.conditions"},
		"a long message":           {fleetv1alpha1.PhysicalClusterStatus{Conditions: []metav1.Condition{{Message: strings.Repeat("v", 32<<10+1)}}}, "message of a condition"},
		"resources without end": {fleetv1alpha1.PhysicalClusterStatus{Capacity: func() corev1.ResourceList {
			l := corev1.ResourceList{}
			for _, name := range listed(257) {
				l[corev1.ResourceName(name)] = resource.MustParse("1")
			}
			return l
		}()}, "status.capacity"},
	} {
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: c.status}
		err := syncerguard.Check(syncerguard.Write{Target: "east", Cluster: scope.Root, Verb: syncerguard.Update, Subresource: "status",
			Resource: fleetv1alpha1.Resource("physicalclusters"), Name: "east", Object: pc, Old: &fleetv1alpha1.PhysicalCluster{ObjectMeta: pc.ObjectMeta}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
