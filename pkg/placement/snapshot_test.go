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
	u.Include("apps/v1/deployments", nil, []string{"runsc"}, cpu("2"))
	u.Include("/v1/persistentvolumeclaims", []string{"fast"}, nil, nil)
	u.Include("apps/v1/deployments", []string{"", "fast"}, []string{"kata", "runsc"}, cpu("1"))
	want := Unit{
		APIs: []string{"/v1/persistentvolumeclaims", "apps/v1/deployments"}, StorageClasses: []string{"", "fast"},
		RuntimeHandlers: []string{"kata", "runsc"}, Requests: cpu("3"),
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
		if got := Decide(s, Unit{Requests: requests("1")}); len(got.PhysicalClusters) != 1 || got.PhysicalClusters[0] != c.want {
			t.Errorf("%+v: %s", c.supposed, got.Message())
		}
	}
	if diff := cmp.Diff(requests("1"), assumed); diff != "" {
		t.Errorf("what was assumed changed:\n%s", diff)
	}
}
