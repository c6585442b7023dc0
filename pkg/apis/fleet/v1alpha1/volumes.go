package v1alpha1

// VolumeStrategy says what becomes of a volume when what uses it moves.
type VolumeStrategy string

const (
	// VolumesRefuse: claims keep what they belong to where it is. The default.
	VolumesRefuse VolumeStrategy = "Refuse"
	// VolumesShared: the volume is in a backend that several physical clusters reach. It
	// stays where it is, and is handed over to the claim on the other one.
	VolumesShared VolumeStrategy = "Shared"
)

// ClassVolumes says what becomes of the volumes of one storage class.
type ClassVolumes struct {
	// storageClass is the name of the class on the physical cluster.
	StorageClass string `json:"storageClass"`
	// strategy is Refuse or Shared.
	Strategy VolumeStrategy `json:"strategy"`
	// backend names what holds the volumes of a Shared class. Two physical clusters of which
	// both entries for a class name the same backend and the same driver can take volumes of
	// each other: only who administers both can know that.
	// +optional
	Backend string `json:"backend,omitempty"`
	// driver is the name of the CSI driver of a Shared class, as its volumes have it
	// (spec.csi.driver). Volumes of another one are not handed over.
	// +optional
	Driver string `json:"driver,omitempty"`
}

// VolumesOf is what becomes of the volumes of a class on a physical cluster.
func (c *PhysicalCluster) VolumesOf(class string) ClassVolumes {
	for _, v := range c.Spec.Volumes {
		if v.StorageClass == class {
			return v
		}
	}
	return ClassVolumes{StorageClass: class, Strategy: VolumesRefuse}
}
