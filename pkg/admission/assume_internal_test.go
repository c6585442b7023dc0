package admission

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// Physical clusters and namespaces come and go while a server runs.
func TestNothingIsRememberedOfPlacementsThatAreGone(t *testing.T) {
	t.Parallel()
	a := &assumptions{decided: map[unitID]assumption{}, placements: map[string]int{}, seen: map[unitID]struct{}{}}
	decided := func(n int, on string) *placementv1alpha1.Placement {
		p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{Kind: "Namespace", UID: types.UID(fmt.Sprint(n)), Controller: ptr.To(true)},
		}}}
		p.Spec.Decision = &placementv1alpha1.Decision{PhysicalClusters: []placementv1alpha1.DecidedPhysicalCluster{{Name: on}}}
		return p
	}
	for n := range 10 {
		a.observe(nil, decided(n, "east"))
		a.observe(decided(n, "east"), decided(n, "west"))
	}
	if a.placements["west"] != 10 || len(a.placements) != 1 || len(a.seen) != 10 {
		t.Errorf("placements %v of %d namespaces", a.placements, len(a.seen))
	}
	for n := range 10 {
		a.observe(decided(n, "west"), nil)
	}
	if len(a.placements) != 0 || len(a.seen) != 0 {
		t.Errorf("placements %v and %d namespaces are remembered", a.placements, len(a.seen))
	}
}

// What was bound a moment ago is decided now: it needs room once.
func TestAUnitTakesNoRoomFromItself(t *testing.T) {
	t.Parallel()
	a := &assumptions{
		clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), choose: placement.Decide,
		decided: map[unitID]assumption{}, placements: map[string]int{}, seen: map[unitID]struct{}{},
	}
	one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1")}
	c := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	c.Status.Allocatable = one
	s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{{PhysicalCluster: c}}}
	for _, step := range []struct {
		unit string
		fits bool
	}{{"a", true}, {"b", false}, {"a", true}} {
		if d, _ := a.decide(s, placement.Unit{Requests: one}, unitID{"1", step.unit}); d.Possible() != step.fits {
			t.Errorf("unit %s: %s", step.unit, d.Message())
		}
	}
}
