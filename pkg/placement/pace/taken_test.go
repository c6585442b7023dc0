package pace

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhatMovesTakesRoomUntilItIsReported(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	requests := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	move := func(cpu string, since time.Duration, to ...string) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{To: to, Requests: requests(cpu), Started: metav1.NewTime(now.Add(-time.Hour)), Since: metav1.NewTime(now.Add(-since))}
	}
	got := Taken(slices.Values([]*placementv1alpha1.Transition{
		move("1", 0, "west"), move("2", time.Minute-time.Second, "west", "north"), move("4", time.Minute, "west"),
		move("8", 0), {To: []string{"south"}, Since: metav1.NewTime(now)},
	}), now)
	want := []placementv1alpha1.AssumedRequests{{PhysicalCluster: "north", Requests: requests("2")}, {PhysicalCluster: "west", Requests: requests("3")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
