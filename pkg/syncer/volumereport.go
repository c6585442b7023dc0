package syncer

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/volume"
)

// volumeReport is what the Copy is to say of the volume.
func (p planner) volumeReport(recorded *placementv1alpha1.CopyVolume) *placementv1alpha1.CopyVolume {
	if !p.Volume.Looked || p.Logical == nil || !p.Ref.Kind.IsClaim() {
		return recorded
	}
	entry, pv := p.entry(), p.Volume.Object
	out := &placementv1alpha1.CopyVolume{}
	if pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == p.Physical.GetUID() {
		out.Name = pv.Name
		onItsWay := entry.Volume != nil || p.onItsWay()
		out.Retained = pv.Annotations[ReclaimPolicyAnnotation] != "" && (Retains(p.Copy) || onItsWay)
		out.Retaining = !out.Retained && onItsWay && recorded != nil && recorded.Retaining && recorded.Name == pv.Name
		name := storageClassAbove(p.Physical.Object)
		switch class := p.class(name); class.Strategy {
		case fleetv1alpha1.VolumesShared:
			out.Source, out.Reason = SourceOf(pv, name, class.Attributes)
		case fleetv1alpha1.VolumesCopy:
			out.Content, out.Reason = ContentOf(pv, name)
		case fleetv1alpha1.VolumesSnapshot:
			out.Content, out.Reason = SnapshottedOf(pv, name, class.Driver, volume.ClaimOf(p.Logical.Object).Size)
		}
		if p.Volume.Untaken != "" && out.Content != nil {
			out.Content, out.Reason = nil, bounded("what is made beside it would be refused: "+p.Volume.Untaken)
		}
	} else if recorded != nil && (recorded.Retained || p.keptFor(pv)) {
		out.Name, out.Retained = recorded.Name, true // it is being bound
	}
	if entry.State == placementv1alpha1.TargetStateDraining {
		kept := pv == nil || out.Name == "" || out.Retained && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		if out.Released = kept && len(p.Volume.Users) == 0; !out.Released {
			out.Reason = bounded("it is used by " + join(p.Volume.Users))
		}
	}
	p.helperReport(out, recorded)
	p.snapshotReport(out, recorded)
	if *out == (placementv1alpha1.CopyVolume{}) {
		return nil
	}
	return out
}

// SourceOf is how another physical cluster can take a volume; nil if none can, with the reason.
// class is the one that its claim names, and attributes are the keys of those that are no secret: no
// other is said of it.
func SourceOf(pv *corev1.PersistentVolume, class string, attributes []string) (_ *placementv1alpha1.VolumeSource, why string) {
	spec, csi := pv.Spec, pv.Spec.CSI
	switch {
	case csi == nil:
		return nil, "it is no CSI volume"
	case csi.ControllerPublishSecretRef != nil || csi.NodeStageSecretRef != nil || csi.NodePublishSecretRef != nil || csi.ControllerExpandSecretRef != nil || csi.NodeExpandSecretRef != nil:
		return nil, "it names Secrets of its physical cluster"
	case spec.NodeAffinity != nil:
		return nil, "only some nodes reach it"
	case len(spec.MountOptions) > 0:
		return nil, "it has mount options"
	}
	if keys := volume.Undeclared(csi.VolumeAttributes, attributes); keys != "" {
		return nil, bounded(volume.ReasonUndeclared(keys))
	}
	policy := spec.PersistentVolumeReclaimPolicy
	if was := pv.Annotations[ReclaimPolicyAnnotation]; was != "" {
		policy = corev1.PersistentVolumeReclaimPolicy(was)
	}
	if policy != corev1.PersistentVolumeReclaimDelete && policy != corev1.PersistentVolumeReclaimRetain {
		return nil, "its reclaim policy is neither Delete nor Retain"
	}
	source := &placementv1alpha1.VolumeSource{
		StorageClass: class, Driver: csi.Driver, Handle: csi.VolumeHandle, FSType: csi.FSType, ReadOnly: csi.ReadOnly, Attributes: csi.VolumeAttributes,
		Capacity: spec.Capacity[corev1.ResourceStorage], AccessModes: spec.AccessModes, VolumeMode: ptr.Deref(spec.VolumeMode, ""),
		ReclaimPolicy: policy, Provisioned: pv.Annotations[provisionedBy] == csi.Driver,
	}
	if errs := volume.ValidateSource(source, nil); len(errs) > 0 {
		return nil, bounded(errs[0].Error())
	}
	return source, ""
}

// ContentOf says that the data of a volume can be copied, whose claim names a class; nil if they
// cannot, with the reason.
func ContentOf(pv *corev1.PersistentVolume, class string) (_ *placementv1alpha1.VolumeContent, why string) {
	if ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock {
		return nil, "it is a block volume, and files are copied"
	}
	return &placementv1alpha1.VolumeContent{StorageClass: class, Capacity: pv.Spec.Capacity[corev1.ResourceStorage]}, ""
}
