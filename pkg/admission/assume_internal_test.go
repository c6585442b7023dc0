package admission

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Physical clusters and namespaces come and go while a server runs.
func TestNothingIsRememberedOfPlacementsThatAreGone(t *testing.T) {
	t.Parallel()
	a := &assumptions{decided: map[types.UID]assumption{}, placements: map[string]int{}, seen: map[types.UID]struct{}{}}
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
