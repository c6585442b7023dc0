package transition

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// FuzzObserved: the status in a Copy is what a physical cluster says. Whatever that is, it
// counts as a number of pods or as nothing.
func FuzzObserved(f *testing.F) {
	f.Add([]byte(`{"availableReplicas":-1,"loadBalancer":{"ingress":[1]}}`))
	f.Add([]byte(`{"numberAvailable":1e300,"loadBalancer":[],"active":{}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &placementv1alpha1.Copy{}
		c.Status.State, c.Status.Observed = placementv1alpha1.CopySynced, &runtime.RawExtension{Raw: data}
		if n, known := Available(c); n < 0 || n > 0 && !known {
			t.Errorf("%d pods are available, known: %v", n, known)
		}
		hasAddress(c)
	})
}
