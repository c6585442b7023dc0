package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// VolumeStrategy says what becomes of a volume when what uses it moves.
type VolumeStrategy string

const (
	// VolumesRefuse: claims keep what they belong to where it is. The default.
	VolumesRefuse VolumeStrategy = "Refuse"
	// VolumesShared: the volume is in a backend that several physical clusters reach. It
	// stays where it is, and is handed over to the claim on the other one.
	VolumesShared VolumeStrategy = "Shared"
	// VolumesCopy: the data are copied to a new volume, while nothing uses either of them.
	VolumesCopy VolumeStrategy = "Copy"
	// VolumesSnapshot: a snapshot of the volume is made in a backend that several physical
	// clusters reach, and restored to a new volume.
	VolumesSnapshot VolumeStrategy = "Snapshot"
)

// Moves says that volumes go elsewhere, or what is in them.
func (s VolumeStrategy) Moves() bool {
	return s == VolumesShared || s == VolumesCopy || s == VolumesSnapshot
}

// FormerVolume says what becomes of the volume from which the data were copied or restored, once
// they are in use elsewhere.
type FormerVolume string

const (
	// FormerVolumeRetain: it stays, released and with the reclaim policy Retain, until an admin
	// removes it. The default.
	FormerVolumeRetain FormerVolume = "Retain"
	// FormerVolumeReclaim: its claim is removed, and the reclaim policy that it had says the rest.
	FormerVolumeReclaim FormerVolume = "Reclaim"
)

// VolumeCopy is how the data of volumes of a class are copied.
type VolumeCopy struct {
	// image has atoll-copy. Pods of it read and fill volumes, in the namespaces of tenants.
	Image string `json:"image"`
	// maxBytes bounds what is copied of one volume. Claims that ask for more do not move.
	MaxBytes resource.Quantity `json:"maxBytes"`
	// formerVolume is Retain or Reclaim; empty means Retain.
	// +optional
	FormerVolume FormerVolume `json:"formerVolume,omitempty"`
}

// VolumeSnapshots is how snapshots of volumes of a class are made, and restored.
type VolumeSnapshots struct {
	// volumeSnapshotClass is the name of a VolumeSnapshotClass on the physical cluster, of the
	// driver and with deletionPolicy Delete: the snapshot goes when it has been restored.
	VolumeSnapshotClass string `json:"volumeSnapshotClass"`
	// image has atoll-copy. A pod of it mounts each volume that was restored, in the namespaces of
	// tenants, before anything is removed where the data came from.
	Image string `json:"image"`
	// formerVolume is Retain or Reclaim; empty means Retain.
	// +optional
	FormerVolume FormerVolume `json:"formerVolume,omitempty"`
}

// ClassVolumes says what becomes of the volumes of one storage class.
type ClassVolumes struct {
	// storageClass is the name of the class on the physical cluster.
	StorageClass string `json:"storageClass"`
	// strategy is Refuse, Shared, Copy or Snapshot.
	Strategy VolumeStrategy `json:"strategy"`
	// backend names what holds the volumes of a Shared or Snapshot class. Two physical clusters
	// of which both entries for a class name the same backend and the same driver can take
	// volumes, or snapshots, of each other: only who administers both can know that.
	// +optional
	Backend string `json:"backend,omitempty"`
	// driver is the name of the CSI driver of a Shared or Snapshot class, as its volumes have it
	// (spec.csi.driver). Volumes and snapshots of another one are not handed over.
	// +optional
	Driver string `json:"driver,omitempty"`
	// attributes are the keys of volumeAttributes that go over with volumes of a Shared class, on
	// both physical clusters: some drivers keep credentials there, and whoever may read the claim or its
	// Copies reads them. A volume that has any other is not handed over. The identity of the
	// provisioner goes over without being named.
	// +optional
	// +listType=set
	Attributes []string `json:"attributes,omitempty"`
	// copy says how the data of a Copy class are copied.
	// +optional
	Copy *VolumeCopy `json:"copy,omitempty"`
	// snapshot says how the volumes of a Snapshot class are restored elsewhere.
	// +optional
	Snapshot *VolumeSnapshots `json:"snapshot,omitempty"`
}

// Former is what becomes of a volume of the class once its data are in use elsewhere.
func (v ClassVolumes) Former() FormerVolume {
	former := FormerVolume("")
	switch {
	case v.Copy != nil:
		former = v.Copy.FormerVolume
	case v.Snapshot != nil:
		former = v.Snapshot.FormerVolume
	}
	if former == "" {
		return FormerVolumeRetain
	}
	return former
}

// VolumesOf is what becomes of the volumes of a class, as claims name it, on a physical cluster.
func (c *PhysicalCluster) VolumesOf(class string) ClassVolumes {
	there := c.Spec.Tenancy.StorageClass(class)
	for _, v := range c.Spec.Volumes {
		if v.StorageClass == there {
			return v
		}
	}
	return ClassVolumes{StorageClass: there, Strategy: VolumesRefuse}
}
