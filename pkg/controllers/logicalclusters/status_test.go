package logicalclusters

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
)

// What a logical cluster uses was said since the controller read it.
func TestAStatusLeavesTheUsageAlone(t *testing.T) {
	t.Parallel()
	shop := func(objects int64) *tenancyv1alpha1.LogicalCluster {
		return &tenancyv1alpha1.LogicalCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop"},
			Status:     tenancyv1alpha1.LogicalClusterStatus{Usage: &tenancyv1alpha1.LogicalClusterUsage{Objects: objects}},
		}
	}
	c := Config{Client: fake.NewSimpleClientset(shop(30))}
	known := shop(6)
	if err := c.setStatus(t.Context(), known, ready(known, "https://atoll.example/clusters/shop")); err != nil {
		t.Fatal(err)
	}
	got, err := c.Client.TenancyV1alpha1().LogicalClusters().Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.URL == "" || got.Status.Usage == nil || got.Status.Usage.Objects != 30 {
		t.Errorf("the status is %+v, want its URL and a usage of 30 objects", got.Status)
	}
}
