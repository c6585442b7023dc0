package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeSource is a volume as one physical cluster hands it over to another one. It names
// no Secret and no option of a mount: those are of each physical cluster.
type VolumeSource struct {
	// storageClass is the class of the claim.
	StorageClass string `json:"storageClass"`
	// driver and handle are those of the CSI volume.
	Driver string `json:"driver"`
	Handle string `json:"handle"`
	// fsType, readOnly and attributes are those of the CSI volume.
	// +optional
	FSType string `json:"fsType,omitempty"`
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// +optional
	Attributes map[string]string `json:"attributes,omitempty"`
	Capacity   resource.Quantity `json:"capacity"`
	// +listType=atomic
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes"`
	// +optional
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// reclaimPolicy is the one that the volume had, and gets again once it was handed over.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy"`
	// provisioned says that the driver made it, and removes it if the policy is Delete.
	// +optional
	Provisioned bool `json:"provisioned,omitempty"`
}

// VolumeContent is a volume whose data can be brought into one on another physical cluster.
type VolumeContent struct {
	// storageClass is the class of the claim.
	StorageClass string            `json:"storageClass"`
	Capacity     resource.Quantity `json:"capacity"`
	// driver is the CSI driver that makes a snapshot of it, from which they are restored; without
	// one they are copied.
	// +optional
	Driver string `json:"driver,omitempty"`
	// snapshot is what has them once the volume is released.
	// +optional
	Snapshot *SnapshotSource `json:"snapshot,omitempty"`
}

// SnapshotSource is a snapshot in a backend, as one physical cluster hands it over to another one. It
// names no Secret.
type SnapshotSource struct {
	// storageClass is the class of the claim.
	StorageClass string `json:"storageClass"`
	// driver and handle are those of the snapshot.
	Driver string `json:"driver"`
	Handle string `json:"handle"`
	// restoreSize is how large a volume has to be into which it is restored, if that is known.
	// +optional
	RestoreSize *resource.Quantity `json:"restoreSize,omitempty"`
}

// VolumeSnapshot is the VolumeSnapshot on a physical cluster that was made of a volume, or from which
// one is restored; its VolumeSnapshotContent is part of it.
type VolumeSnapshot struct {
	Name string `json:"name"`
	// message is why it is not ready to use; empty once it is.
	// +optional
	Message string `json:"message,omitempty"`
}

// VolumeHandle is what a volume or a snapshot is called in its backend.
type VolumeHandle struct {
	// StorageClass is the class of its claim.
	StorageClass string
	// Driver is the CSI driver that gave it the Handle.
	Driver, Handle string
}

// Named is the volume as its backend knows it.
func (s *VolumeSource) Named() VolumeHandle { return VolumeHandle{s.StorageClass, s.Driver, s.Handle} }

// Named is the snapshot as its backend knows it.
func (s *SnapshotSource) Named() VolumeHandle {
	return VolumeHandle{s.StorageClass, s.Driver, s.Handle}
}

// Named are what a syncer says that the volume, or what was made of it, is in its backend; none of nil.
func (v *CopyVolume) Named() []VolumeHandle {
	var out []VolumeHandle
	if v != nil && v.Source != nil {
		out = append(out, v.Source.Named())
	}
	if v != nil && v.Content != nil && v.Content.Snapshot != nil {
		out = append(out, v.Content.Snapshot.Named())
	}
	return out
}

// VolumeHelper is the pod on a physical cluster that reads a volume, fills it, or mounts it once it
// was restored.
type VolumeHelper struct {
	Name string `json:"name"`
	// uid is empty as long as the pod is about to be made.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// ready says that it can be connected to.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// message is why it is not ready, or what it said when it ended.
	// +optional
	Message string `json:"message,omitempty"`
}

// VolumeFilled says that the volume has the data that another one has: they were copied, and what was
// written was read again; or they were restored, and the volume was mounted.
type VolumeFilled struct {
	// from is the physical cluster that has the other one.
	From string `json:"from"`
	// digest is that of all files with their content, owners, modes and times, as both ends have
	// them: sha256 in hexadecimal digits. It is empty where they were restored.
	// +optional
	Digest string `json:"digest,omitempty"`
	// snapshot is the handle of that from which they were restored.
	// +optional
	Snapshot string `json:"snapshot,omitempty"`
	// bytes and entries, which are files, directories and links, are those that were copied.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// +optional
	Entries int64 `json:"entries,omitempty"`
	// omitted are sockets and pipes: they hold nothing.
	// +optional
	Omitted int64 `json:"omitted,omitempty"`
}

// CopyTransfer is what the server says of the data that it is passing on to a volume.
type CopyTransfer struct {
	From string `json:"from"`
	// bytes is how much of the attempt was passed on.
	Bytes int64 `json:"bytes"`
	// attempts is how often it was begun: each begins at the beginning.
	Attempts int64 `json:"attempts"`
	// message is why the last one ended before its end.
	// +optional
	Message string `json:"message,omitempty"`
}

// CopyVolume is what a syncer says of the volume of a claim.
type CopyVolume struct {
	// name of the PersistentVolume on the physical cluster.
	Name string `json:"name"`
	// source is how another physical cluster can take it; absent if none can, with the reason.
	// +optional
	Source *VolumeSource `json:"source,omitempty"`
	// reason is why there is no source, or why it is not released.
	// +optional
	Reason string `json:"reason,omitempty"`
	// retaining says that the syncer is about to have the volume kept when its claim goes. It is said before the
	// volume is changed: whoever finds it changed without being retained knows whose doing that was.
	// +optional
	Retaining bool `json:"retaining,omitempty"`
	// retained says that the syncer has the volume kept when its claim goes.
	// +optional
	Retained bool `json:"retained,omitempty"`
	// content says that its data can be copied, or restored from a snapshot; absent if they
	// cannot, with the reason.
	// +optional
	Content *VolumeContent `json:"content,omitempty"`
	// helper is the pod that reads, fills or mounts it.
	// +optional
	Helper *VolumeHelper `json:"helper,omitempty"`
	// snapshot is what was made of it, or what it is restored from, as long as that is there.
	// +optional
	Snapshot *VolumeSnapshot `json:"snapshot,omitempty"`
	// filled says that it has the data of another volume.
	// +optional
	Filled *VolumeFilled `json:"filled,omitempty"`
	// released says that the volume is kept when its claim goes, and that no pod there uses it
	// any more.
	// +optional
	Released bool `json:"released,omitempty"`
}

// TargetVolume is the volume that a claim gets on a target.
type TargetVolume struct {
	// From is the physical cluster that it, or what is in it, comes from.
	From string `json:"from"`
	// Copied says that it is a volume of its own, into which the data are brought; else it is Source.
	Copied bool         `json:"copied,omitempty"`
	Source VolumeSource `json:"source,omitzero"`
	// Snapshot is what one that is Copied is restored from; nil: its files are copied.
	Snapshot *SnapshotSource `json:"snapshot,omitempty"`
}
