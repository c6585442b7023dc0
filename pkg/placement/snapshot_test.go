package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAUnitNeedsWhatItsObjectsNeedTogether(t *testing.T) {
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	u := Unit{}
	deployments, ingresses := []string{"apps/v1/deployments"}, []string{"networking.k8s.io/v1/ingresses"}
	u.Include(Needs{APIs: deployments, RuntimeHandlers: []string{"runsc"}, Requests: cpu("2")})
	u.Include(Needs{APIs: ingresses, StorageClasses: []string{"fast"}, IngressClasses: []string{"nginx"}})
	u.Include(Needs{APIs: deployments, StorageClasses: []string{"", "fast"}, RuntimeHandlers: []string{"kata", "runsc"}, Requests: cpu("1")})
	u.Prioritize("high", "east", "tenants-high")
	u.Prioritize("high", "east", "shops-high") // as a policy permits another object
	u.Prioritize("high", "east", "tenants-high")
	want := Unit{
		Needs: Needs{
			APIs: []string{"apps/v1/deployments", "networking.k8s.io/v1/ingresses"}, StorageClasses: []string{"", "fast"},
			RuntimeHandlers: []string{"kata", "runsc"}, IngressClasses: []string{"nginx"}, Requests: cpu("3"),
		},
		PriorityClasses: map[string]map[string][]string{"high": {"east": {"shops-high", "tenants-high"}}},
	}
	if diff := cmp.Diff(want, u); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is supposed counts as what is assumed does, and leaves what it was made from alone.
func TestWhatAReviewSupposesIsTaken(t *testing.T) {
	east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	west := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	for _, c := range []*fleetv1alpha1.PhysicalCluster{east, west} {
		c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("3")}
		c.Spec.Bounds = corev1.ResourceList{fleetv1alpha1.BoundNamespaces: resource.MustParse("3")}
	}
	requests := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	assumed := requests("1")
	for _, c := range []struct {
		supposed placementv1alpha1.AssumedRequests
		want     string
	}{
		{placementv1alpha1.AssumedRequests{PhysicalCluster: "elsewhere", Units: 9, Requests: requests("9")}, "east"},
		{placementv1alpha1.AssumedRequests{PhysicalCluster: "east", Units: 1, Requests: requests("1")}, "east"},
		{placementv1alpha1.AssumedRequests{PhysicalCluster: "east", Units: 2}, "west"},
		{placementv1alpha1.AssumedRequests{PhysicalCluster: "east", Requests: requests("1500m")}, "west"},
	} {
		s := Snapshot{PhysicalClusters: []PhysicalCluster{{PhysicalCluster: east, Assumed: assumed, Placements: 1}, {PhysicalCluster: west, Assumed: requests("2"), Placements: 2}}}
		s.PhysicalClusters[0].Assumed = assumed.DeepCopy()
		Assume(s, []placementv1alpha1.AssumedRequests{c.supposed})
		if got := Decide(s, Unit{Needs: Needs{Requests: requests("1")}}); len(got.PhysicalClusters) != 1 || got.PhysicalClusters[0] != c.want {
			t.Errorf("%+v: %s", c.supposed, got.Message())
		}
	}
	if diff := cmp.Diff(requests("1"), assumed); diff != "" {
		t.Errorf("what was assumed changed:\n%s", diff)
	}
}
