package agent

import (
	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// What is kept of the objects that a physical cluster shows, if no admin says how much: in
// any case as much as a few large workloads make, and more for each Copy and each import.
const (
	leastObjects, objectsEach = 10_000, 100
	leastMemory, memoryEach   = 128 << 20, 256 << 10
)

// mostHeld is what may be held with a number of Copies and imports, in a session; another bound is that
// of the next one.
//
//	bounds of the PhysicalCluster    objects, memory
//	names it                         what it says, however many there are
//	does not                         the least, and so much for each
func mostHeld(bounds corev1.ResourceList, placed int) controller.Held {
	h := controller.Held{Objects: leastObjects + objectsEach*int64(placed), Bytes: leastMemory + memoryEach*int64(placed)}
	if q, ok := bounds[fleetv1alpha1.BoundObjects]; ok {
		h.Objects = q.Value()
	}
	if q, ok := bounds[fleetv1alpha1.BoundObjectsMemory]; ok {
		h.Bytes = q.Value()
	}
	return h
}
