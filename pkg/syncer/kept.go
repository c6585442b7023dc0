package syncer

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Retains says that a Copy says that the volume was kept, or was to be: if it is, that was its syncer.
func Retains(c *placementv1alpha1.Copy) bool {
	return c != nil && c.Status.Volume != nil && (c.Status.Volume.Retained || c.Status.Volume.Retaining)
}

// keptFor says that a volume was kept for a claim of the name, as its Copy says, and that another one gets it.
func (p planner) keptFor(pv *corev1.PersistentVolume) bool {
	recorded := p.recordedVolume()
	return Retains(p.Copy) && pv != nil && pv.Name == recorded.Name && pv.DeletionTimestamp == nil && p.ofClaim(pv) &&
		pv.Annotations[ReclaimPolicyAnnotation] != "" && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// mayBeKept says that a volume was to be kept, and that it is not known yet whether it is.
func (p planner) mayBeKept() bool {
	recorded := p.recordedVolume()
	return recorded != nil && recorded.Retaining && !recorded.Retained && !p.Volume.Looked
}

// keepDeleted keeps the volume of a claim that somebody deletes on the physical cluster while it is on its way, and that
// is there for as long as pods use it.
func (p planner) keepDeleted() []Action {
	switch pv := p.Volume.Object; {
	case !p.Ref.Kind.IsClaim() || p.physical != physicalOurs || !p.onItsWay() || text(field(p.Physical.Object, "spec"), "volumeName") == "":
		return nil
	case !p.Volume.Looked:
		return []Action{{Verb: LookAtVolume, Why: "Deleted"}}
	case pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != p.Physical.GetUID():
		return nil
	default:
		return p.retain(pv)
	}
}

// retain has the data of a volume stay when its claim goes. That is recorded before it is done: if the syncer ends between
// the two, and the claim is not on its way any more when another one looks, that one knows that nobody else has it.
func (p planner) retain(pv *corev1.PersistentVolume) []Action {
	actions := keepVolume(pv)
	if recorded := p.recordedVolume(); len(actions) == 0 || Retains(p.Copy) && recorded.Name == pv.Name {
		return actions
	}
	return p.recordBeside(func(v *placementv1alpha1.CopyVolume) { v.Name, v.Retaining = pv.Name, true })
}

// keepVolume has the data of a volume stay when its claim goes, and notes what was before.
func keepVolume(pv *corev1.PersistentVolume) []Action {
	if pv.Annotations[ReclaimPolicyAnnotation] != "" && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return nil
	}
	was := pv.Annotations[ReclaimPolicyAnnotation]
	if was == "" {
		was = string(pv.Spec.PersistentVolumeReclaimPolicy)
	}
	return []Action{{Verb: UpdateVolume, Object: volumePatch(pv, string(corev1.PersistentVolumeReclaimRetain), &was), Why: "Kept"}}
}

// settleVolume gives a volume that was kept the reclaim policy that it had.
func (p planner) settleVolume(pv *corev1.PersistentVolume) []Action {
	policy := pv.Annotations[ReclaimPolicyAnnotation]
	switch policy {
	case "":
		return nil
	case string(corev1.PersistentVolumeReclaimDelete):
	default:
		policy = string(corev1.PersistentVolumeReclaimRetain)
	}
	return []Action{{Verb: UpdateVolume, Object: volumePatch(pv, policy, nil), Why: "Settled"}}
}

// settleRetained is settleVolume once the server says that it knows that the volume was kept, or was to be, and so that
// nobody else has it any more. A server that was restored from a backup of before knows of neither.
func (p planner) settleRetained(pv *corev1.PersistentVolume) []Action {
	if !Retains(p.Copy) {
		return nil
	}
	actions := p.settleVolume(pv)
	for i := range actions {
		actions[i].IfRetained = true
	}
	return actions
}

// volumePatch is a merge patch upon the version that was looked at.
func volumePatch(pv *corev1.PersistentVolume, policy string, was *string) *unstructured.Unstructured {
	patch := named(pv)
	patch.SetUID(pv.UID)
	patch.SetResourceVersion(pv.ResourceVersion)
	var noted any
	if was != nil {
		noted = *was
	}
	setNested(patch.Object, noted, "metadata", "annotations", ReclaimPolicyAnnotation)
	setNested(patch.Object, policy, "spec", "persistentVolumeReclaimPolicy")
	return patch
}

// reservation has a volume wait for a claim of the name of that which it was bound to.
func reservation(pv *corev1.PersistentVolume) *unstructured.Unstructured {
	patch := named(pv)
	patch.SetUID(pv.UID)
	patch.SetResourceVersion(pv.ResourceVersion)
	setNested(patch.Object, nil, "spec", "claimRef", "uid")
	setNested(patch.Object, nil, "spec", "claimRef", "resourceVersion")
	return patch
}

func named(pv *corev1.PersistentVolume) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolume"}}
	obj.SetName(pv.Name)
	return obj
}
