package mirrors

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestWhatIsMirroredEndsWithItsPhysicalClusterOrWithTheNamespaceThere(t *testing.T) {
	t.Parallel()
	slice, _ := workload.Builtin().Current().ObservedByResource(discoveryv1.Resource("endpointslices"))
	claim, _ := workload.Builtin().Current().ObservedByResource(corev1.Resource("persistentvolumeclaims"))
	registered := &fleetv1alpha1.PhysicalCluster{}
	forget := &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Forget: true}}
	on := func(targets string) metav1.Object {
		return &metav1.ObjectMeta{Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: targets}}
	}
	for _, c := range []struct {
		name      string
		kind      workload.Kind
		from      *fleetv1alpha1.PhysicalCluster
		namespace metav1.Object
		ends      bool
	}{
		{"it is to be forgotten", slice, forget, on(`{"east":{}}`), true},
		{"there is none of the name", slice, nil, on(`{"east":{}}`), true},
		{"a claim, and it is to be forgotten", claim, forget, on(`{"east":{}}`), true},
		{"the Namespace is gone", slice, registered, nil, false},
		{"the Namespace is there", slice, registered, on(`{"east":{}}`), false},
		{"the Namespace leaves", slice, registered, on(`{"east":{"state":"Removing"},"west":{}}`), false},
		{"the Namespace has left", slice, registered, on(`{"west":{}}`), true},
		{"the Namespace is nowhere", slice, registered, &metav1.ObjectMeta{}, true},
		{"a claim whose Namespace has left", claim, registered, on(`{"west":{}}`), false},
	} {
		if ends := Ends(c.kind, "east", c.from, c.namespace); ends != c.ends {
			t.Errorf("%s: %t, want %t", c.name, ends, c.ends)
		}
	}
}
