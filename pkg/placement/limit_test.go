package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestWhatIsLimitedAndExceeded(t *testing.T) {
	t.Parallel()
	list := func(name corev1.ResourceName, n string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(n)}
	}
	const cpu, memory = corev1.ResourceCPU, corev1.ResourceMemory
	namespaces := list(fleetv1alpha1.BoundNamespaces, "2")
	for name, test := range map[string]struct {
		bounds, allocatable, requested, assumed, letIn, wants corev1.ResourceList
		placements                                            int
		limited                                               bool
		exceeds                                               string
	}{
		"nothing says anything":                  {wants: list(cpu, "1")},
		"nothing is wanted of what is free":      {allocatable: list(cpu, "1")},
		"none is wanted of what is free":         {allocatable: list(cpu, "1"), wants: list(cpu, "0")},
		"what is wanted is not bounded":          {bounds: list(memory, "1"), wants: list(cpu, "1")},
		"namespaces are bounded":                 {bounds: namespaces, placements: 1, limited: true},
		"there are as many namespaces as may be": {bounds: namespaces, placements: 2, limited: true, exceeds: ReasonBoundsExceeded},
		"what is wanted is bounded":              {bounds: list(cpu, "4"), wants: list(cpu, "1"), assumed: list(cpu, "3"), limited: true},
		"the rest of the bound is reserved":      {bounds: list(cpu, "4"), wants: list(cpu, "1"), assumed: list(cpu, "3500m"), limited: true, exceeds: ReasonBoundsExceeded},
		"what is wanted is free":                 {allocatable: list(cpu, "4"), wants: list(cpu, "1"), requested: list(cpu, "2"), assumed: list(cpu, "1"), limited: true},
		"what is free is reserved":               {allocatable: list(cpu, "4"), wants: list(cpu, "1"), requested: list(cpu, "2"), assumed: list(cpu, "2"), limited: true, exceeds: ReasonInsufficient},
		"it reports less than was let in": {
			bounds: list(cpu, "4"), wants: list(cpu, "1"), requested: list(cpu, "0"), letIn: list(cpu, "3500m"), limited: true, exceeds: ReasonBoundsExceeded,
		},
		"what was let in leaves room":              {bounds: list(cpu, "4"), wants: list(cpu, "1"), requested: list(cpu, "1"), letIn: list(cpu, "3"), limited: true},
		"it reports more, of others who use it":    {bounds: list(cpu, "4"), wants: list(cpu, "1"), requested: list(cpu, "3500m"), letIn: list(cpu, "3"), limited: true, exceeds: ReasonBoundsExceeded},
		"where nothing is bounded it is believed":  {allocatable: list(cpu, "4"), wants: list(cpu, "1"), letIn: list(cpu, "9"), limited: true},
		"another resource is bounded":              {bounds: list(memory, "1"), allocatable: list(cpu, "4"), wants: list(cpu, "1"), letIn: list(cpu, "9"), limited: true},
		"what is allocatable is that of the bound": {bounds: list(cpu, "9"), allocatable: list(cpu, "4"), wants: list(cpu, "1"), letIn: list(cpu, "4"), limited: true, exceeds: ReasonInsufficient},
		"it is cordoned, which others have asked":  {allocatable: list(cpu, "4"), wants: list(cpu, "1"), limited: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := PhysicalCluster{
				PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}},
				Assumed:         test.assumed, LetIn: test.letIn, Placements: test.placements,
			}
			c.Spec.Unschedulable = true
			c.Spec.Bounds, c.Status.Allocatable, c.Status.Requested = test.bounds, test.allocatable, test.requested
			u, exceeds := Unit{Needs: Needs{Requests: test.wants}}, ""
			if no := Exceeds(c, u); no != nil {
				exceeds = no.Reason
			}
			if diff := cmp.Diff([]any{test.limited, test.exceeds}, []any{Limited(c, u), exceeds}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
