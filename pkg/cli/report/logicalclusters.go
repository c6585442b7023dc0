package report

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

// LogicalClusters is a row for each logical cluster.
func LogicalClusters(list []tenancyv1alpha1.LogicalCluster, now time.Time) *metav1.Table {
	t := newTable("Name", "Phase", "Owners", "Age", "+URL", "+Labels")
	for i := range list {
		lc := &list[i]
		var owners []string
		for _, s := range lc.Spec.Owners {
			owners = append(owners, s.Kind+":"+s.Name)
		}
		phase := string(lc.Status.Phase)
		if lc.DeletionTimestamp != nil {
			phase = string(tenancyv1alpha1.LogicalClusterTerminating)
		}
		add(t, lc.Name, orUnknown(phase), names(owners), age(lc.CreationTimestamp, now), orUnknown(lc.Status.URL), labels(lc.Labels))
	}
	return t
}
