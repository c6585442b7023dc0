package syncerguard

import (
	"fmt"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

const (
	// maxName bounds a name, a range of addresses, the path of a resource.
	maxName = 512
	// maxMessage is what upstream permits the message of a condition to have.
	maxMessage = 32 << 10
)

// checkSizes bounds what the status of a PhysicalCluster lists. The numbers are beyond what a physical
// cluster of 5,000 nodes has; how large the status is in all is bounded where it is stored.
func checkSizes(w Write) error {
	written, ok := w.Object.(*fleetv1alpha1.PhysicalCluster)
	if !ok {
		return nil // asked again once the object is known, or of another type, which is said elsewhere
	}
	s := &written.Status
	for _, list := range []struct {
		name  string
		most  int
		items []string
	}{
		{"features", 64, s.Features}, {"apis", 10_000, s.APIs}, {"storageClasses", 1_000, s.StorageClasses},
		{"runtimeHandlers.names", fleetv1alpha1.MaxReportedNames, s.RuntimeHandlers.Reported()},
		{"ingressClasses.names", fleetv1alpha1.MaxReportedNames, s.IngressClasses.Reported()},
		{"priorityClasses.names", fleetv1alpha1.MaxReportedNames, s.PriorityClasses.Reported()},
		{"volumeSnapshotClasses.classes", 3 * fleetv1alpha1.MaxReportedNames, snapshotClasses(s)},
		{"podCIDRs", 10_000, s.PodCIDRs}, {"nodeCIDRs", 10_000, s.NodeCIDRs}, {"version", 1, []string{s.Version}}, {"defaultStorageClass", 1, []string{s.DefaultStorageClass}},
	} {
		if len(list.items) > list.most {
			return tooMany(w, list.name, len(list.items), list.most)
		}
		for _, item := range list.items {
			if len(item) > maxName {
				return fmt.Errorf("the syncer of %s may write up to %d bytes in each of status.%s, not %d", w.Target, maxName, list.name, len(item))
			}
		}
	}
	for name, n := range map[string]int{"capacity": len(s.Capacity), "allocatable": len(s.Allocatable), "requested": len(s.Requested)} {
		if n > 256 {
			return tooMany(w, name, n, 256)
		}
	}
	if n := len(s.Conditions); n > 32 {
		return tooMany(w, "conditions", n, 32)
	}
	for _, c := range s.Conditions {
		if len(c.Message) > maxMessage {
			return fmt.Errorf("the syncer of %s may write up to %d bytes in the message of a condition, not %d", w.Target, maxMessage, len(c.Message))
		}
	}
	return nil
}

// snapshotClasses are all that is said of them.
func snapshotClasses(s *fleetv1alpha1.PhysicalClusterStatus) (out []string) {
	if s.VolumeSnapshotClasses == nil {
		return nil
	}
	for _, c := range s.VolumeSnapshotClasses.Classes {
		out = append(out, c.Name, c.Driver, c.DeletionPolicy)
	}
	return out
}

func tooMany(w Write, name string, n, most int) error {
	return fmt.Errorf("the syncer of %s may list up to %d in status.%s, not %d", w.Target, most, name, n)
}
