package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	// retained says that the syncer has the volume kept when its claim goes.
	// +optional
	Retained bool `json:"retained,omitempty"`
	// released says that the volume is kept when its claim goes, and that no pod there uses it
	// any more.
	// +optional
	Released bool `json:"released,omitempty"`
}

// TargetVolume is the volume that a claim gets on a target.
type TargetVolume struct {
	// From is the physical cluster that it comes from.
	From   string       `json:"from"`
	Source VolumeSource `json:"source"`
}
