package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/volume"
)

const (
	// ReclaimPolicyAnnotation is on a PersistentVolume that is kept for as long as it is on its
	// way: the reclaim policy that it gets again.
	ReclaimPolicyAnnotation = "atoll.dev/reclaim-policy"
	provisionedBy           = "pv.kubernetes.io/provisioned-by"
	// volumeInterval is how often a volume that is given up is looked at: who uses it tells no
	// watch here.
	volumeInterval = time.Second
)

// Volume is what is known of the volume of a claim on the physical cluster.
type Volume struct {
	// Looked says that the physical cluster was asked.
	Looked bool
	// Object is the volume that the claim is bound to, or that was made for it; of a Namespace that leaves, one that
	// would go with a claim in it.
	Object *corev1.PersistentVolume
	// Users are who uses it, as far as that counts: pods, and nodes that it is attached to.
	Users []string
	// Helper is the pod that reads, fills or mounts it; see HelperOf.
	Helper *corev1.Pod
	// Snapshot is what was made of it, or what it is restored from, and SnapshotContent what
	// that is in the backend; see SnapshotOf and SnapshotContentOf.
	Snapshot, SnapshotContent *unstructured.Unstructured
	// Untaken is why the physical cluster would not take what is made beside it; see Tried.
	Untaken string
}

// VolumeName is the name of the volume that is made for a claim.
func VolumeName(controlPlane string, claim types.UID) string {
	sum := sha256.Sum256([]byte(controlPlane + "/" + string(claim)))
	return "atoll-" + hex.EncodeToString(sum[:16])
}

// VolumeOf is the name of the volume that is to be looked at; empty if there is none.
func VolumeOf(in Input) string {
	if in.Physical != nil {
		if name := text(field(in.Physical.Object, "spec"), "volumeName"); name != "" {
			return name
		}
	}
	if in.Copy != nil && in.Copy.Status.Volume != nil && in.Copy.Status.Volume.Name != "" {
		return in.Copy.Status.Volume.Name
	}
	if in.Logical != nil {
		return VolumeName(in.ControlPlane, in.Logical.GetUID())
	}
	return ""
}

// volume is what has to be done about the volume of a claim before the claim itself.
//
//	entry                the claim   the volume                then
//	with a volume        none        is not recorded           WriteCopy: the record comes first
//	with a volume        none        none                      MakeVolume, which keeps its data
//	with a volume        none        of that name, not ours    WriteCopy Failed
//	with a volume        none        of that name, was bound   UpdateVolume: it is reserved for the next one
//	                                 to one that is gone
//	with a volume        bound       another one               WriteCopy Failed
//	with a volume, or    bound       would go with its claim   UpdateVolume: it is kept, which is recorded first
//	on its way                                                 (see retain)
//	any                  any         a pod of somebody else    WriteCopy Failed, see noHelper
//	                                 has the name of our own
//	data were copied     none        any                       WriteCopy Failed: a new claim would have an empty
//	into it                                                    one
//	restored from a      any         any                       see restore: the snapshot comes first
//	snapshot
//	without a volume     none        was kept, is bound to     UpdateVolume: it is reserved for the next one, which
//	                                 the one that is gone      has the data again
//	without a volume     none        was kept, and is not      WriteCopy Failed: a new claim would have an empty
//	                                 there, or another target  one
//	                                 has it
//	else                 bound       was kept, or was to be,   UpdateVolume: as it was
//	                                 as its Copy says
//	else                 bound       was kept, which nobody    nothing: a server that went back knows nothing of
//	                                 knows                     who else has it
//
// What fails is tried again: done is false until then, and the claim is left alone.
func (p planner) volume() (_ []Action, done bool) {
	if !p.Ref.Kind.IsClaim() || !p.seesVolume() {
		return nil, true
	}
	entry, recorded := p.entry(), p.recordedVolume()
	if entry.Volume != nil && entry.Volume.Copied {
		if p.physical == physicalNone && recorded != nil && recorded.Filled != nil {
			return p.fail(Failure{Reason: "ClaimGone", Message: "somebody deleted the claim on the physical cluster after it got the data from " + entry.Volume.From}), false
		}
		if entry.Volume.Snapshot != nil {
			if actions, done := p.restore(); !done {
				return actions, false
			}
		}
		entry.Volume = nil // it has one of its own
	}
	made := VolumeName(p.ControlPlane, p.Logical.GetUID())
	if entry.Volume != nil && p.physical == physicalNone && (recorded == nil || recorded.Name != made) {
		if class := p.class(entry.Volume.Source.StorageClass); class.Strategy != fleetv1alpha1.VolumesShared || class.Driver != entry.Volume.Source.Driver {
			return p.fail(Failure{Reason: "VolumeNotShared", Message: "volumes of the class and the driver are not declared to be shared here"}), false
		}
		status := p.status(placementv1alpha1.CopyPending, "Volume", "its volume is about to be made from that on "+entry.Volume.From)
		status.Volume = &placementv1alpha1.CopyVolume{Name: made, Retained: true}
		return p.write(status, p.Logical.GetUID()), false
	}
	if !p.Volume.Looked {
		return []Action{{Verb: LookAtVolume, Why: string(entry.State)}}, false
	}
	for _, failure := range []*Failure{p.noHelper(), p.snapshotNotOurs()} {
		if failure != nil {
			return p.fail(*failure), false
		}
	}
	pv := p.Volume.Object
	if p.physical == physicalNone {
		switch {
		case entry.Volume == nil && p.keptFor(pv) && pv.Spec.ClaimRef.UID != "":
			return []Action{{Verb: UpdateVolume, Object: reservation(pv), Why: "ClaimGone"}}, false
		case entry.Volume == nil && p.keptFor(pv):
			return nil, true // it is bound to that
		case entry.Volume == nil && len(p.alike()) > 0:
			return p.claimGone("the claim is gone from the physical cluster with its volume, which " + join(p.alike()) +
				" has: a new one would be empty; place the namespace elsewhere and here again, and it gets the volume"), false
		case entry.Volume == nil && recorded != nil && recorded.Retained:
			return p.claimGone("the claim is gone from the physical cluster with its volume " + recorded.Name + ", which was to be handed over: a new one would be empty"), false
		case entry.Volume == nil:
			return nil, true
		case pv == nil:
			return []Action{{Verb: MakeVolume, Object: p.makeVolume(made, entry.Volume.Source), Why: "HandedOver"}}, false
		case !p.madeVolume(pv):
			return p.fail(Failure{Reason: "VolumeNotOurs", Message: "a volume of the name " + pv.Name + " that was made by somebody else is on the physical cluster"}), false
		case pv.Spec.ClaimRef.UID != "":
			return []Action{{Verb: UpdateVolume, Object: reservation(pv), Why: "ClaimGone"}}, false
		}
		return nil, true
	}
	switch {
	case pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != p.Physical.GetUID():
		return nil, true
	case entry.Volume != nil && pv.Name != made:
		return p.fail(Failure{Reason: "OtherVolume", Message: "the claim is bound to the volume " + pv.Name + " and not to the one that was handed over"}), false
	case entry.Volume != nil || p.onItsWay():
		actions := p.retain(pv)
		return actions, len(actions) == 0
	}
	actions := p.settleRetained(pv)
	return actions, len(actions) == 0
}

// losesData says what is to be known of a claim that is made again, and gets another volume: its former one is left
// somewhere at best. It may be that a server was restored to before a move, and believes the claim to be where it was.
func (p planner) losesData() string {
	recorded := p.recordedVolume()
	if !p.Ref.Kind.IsClaim() || p.entry().Volume != nil || recorded != nil && recorded.Retained || p.keptFor(p.Volume.Object) || len(p.alike()) > 0 {
		return ""
	}
	return "the claim is gone from the physical cluster, and is made again: its new volume is empty. Its former one may be left there, or, if a backup was restored, elsewhere: an admin of the physical clusters finds out"
}

// claimGone records that a claim is gone, and that none is made in its place. A volume that others may have is given up
// all the same where the claim leaves.
func (p planner) claimGone(message string) []Action {
	status := p.status(placementv1alpha1.CopyFailed, "ClaimGone", message)
	if v := status.Volume; v.Source != nil || len(p.alike()) > 0 {
		leaves := p.entry().State == placementv1alpha1.TargetStateDraining
		v.Released, v.Reason = leaves && len(p.Volume.Users) == 0, ""
		if leaves && !v.Released {
			v.Reason = bounded("it is used by " + join(p.Volume.Users))
		}
	}
	if actions := p.write(status, p.Logical.GetUID()); len(actions) > 0 {
		return actions
	}
	return p.volumeInUse()
}

// former is what becomes of the volume of the claim once its data were brought elsewhere; empty if they were not.
func (p planner) former() fleetv1alpha1.FormerVolume {
	recorded := p.recordedVolume()
	if recorded == nil || recorded.Content == nil {
		return ""
	}
	return p.class(recorded.Content.StorageClass).Former()
}

// volumeBeforeRemoval is what has to be done about a volume when its claim goes: a claim that is
// only elsewhere from now on must not take its data along.
//
//	the claim   removed by            the volume             then
//	any         its user              another target has     nothing yet: that goes first, see stamp.Outlives
//	                                  it, which is to go
//	                                  first
//	is gone     its user              another target has it  DeleteVolume: the data stay for that
//	is there    Removing              would go with it       UpdateVolume: it is kept
//	is gone     Removing              was kept               DeleteVolume: the data stay in the backend
//	is there    Removing, its data    any                    UpdateVolume: kept, or as it was, as an admin declared
//	            were copied
//	is gone     Removing, its data    any                    nothing: its policy says
//	            were copied
//	any         Removing, it is half  any                    nothing: it goes with its claim
//	            of a copy
//	is gone     its user              was never bound        DeleteVolume
//	is there    its user              was kept, which nobody as its reclaim policy says: the data stay
//	                                  knows
//	is there    its user              else                   UpdateVolume: as it was; then as its reclaim policy says
//	is gone     its user              else                   as its reclaim policy says
//
// What fails is tried again: done is false until then.
func (p planner) volumeBeforeRemoval(below bool) (_ []Action, done bool) {
	if p.outlives() {
		return p.write(p.status(placementv1alpha1.CopyRemoving, reasonVolumeElsewhere, "it goes after its copies on "+join(p.alike())+", which have the same volume"), p.Copy.Spec.Object.UID), false
	}
	if !p.Ref.Kind.IsClaim() || p.copy != copyCurrent || p.recordedVolume() == nil {
		return nil, true
	}
	if p.Failure != nil {
		return p.write(p.status(placementv1alpha1.CopyRemoving, p.Failure.Reason, p.Failure.Message), p.Copy.Spec.Object.UID), false
	}
	if !p.Volume.Looked {
		return []Action{{Verb: LookAtVolume, Why: "Removing"}}, false
	}
	if actions, done := p.helperBeforeRemoval(); !done {
		return actions, false
	}
	if actions, done := p.snapshotBeforeRemoval(); !done {
		return actions, false
	}
	actions := p.volumeOfRemoved(below)
	return actions, len(actions) == 0
}

// deleted says that the user deletes the claim.
func (p planner) deleted() bool {
	return p.Ref.Kind.IsClaim() && p.logical == logicalGoing && p.Logical.GetDeletionTimestamp() != nil
}

// alike are the other targets that have the volume of the claim.
func (p planner) alike() []string {
	return stamp.Alike(stamp.TargetsOf(p.Logical.GetAnnotations()), p.Target)
}

// outlives says that the user deletes the claim, and that other copies of it go first.
func (p planner) outlives() bool {
	return p.deleted() && p.copy == copyCurrent && stamp.Outlives(stamp.TargetsOf(p.Logical.GetAnnotations()), p.Target)
}

func (p planner) volumeOfRemoved(below bool) []Action {
	pv := p.Volume.Object
	elsewhere := p.deleted() && len(p.alike()) > 0
	moved := p.logical == logicalGoing && p.Logical.GetDeletionTimestamp() == nil
	if moved && p.entry().Volume != nil && p.entry().Volume.Copied {
		moved = false // what it is a copy of is what counts
	}
	former := p.former()
	switch {
	case pv == nil:
		return nil
	case below && moved && former == fleetv1alpha1.FormerVolumeReclaim && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == p.Physical.GetUID():
		return p.settleVolume(pv)
	case below && (moved || elsewhere) && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == p.Physical.GetUID():
		return p.retain(pv)
	case below && p.deleted() && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == p.Physical.GetUID():
		return p.settleRetained(pv)
	case below || pv.Annotations[ReclaimPolicyAnnotation] == "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain ||
		pv.DeletionTimestamp != nil || !p.ofClaim(pv):
		return nil
	case former != "":
		return nil // it stays for the admin
	case moved, elsewhere, p.madeVolume(pv) && pv.Spec.ClaimRef.UID == "":
		return []Action{{Verb: DeleteVolume, UID: pv.UID, Object: named(pv), Why: "HandedOver"}}
	}
	return nil
}

// seesVolume says that the volume of a claim is to be looked at: it is on its way, was, or is not
// recorded as it should be.
func (p planner) seesVolume() bool {
	entry, recorded := p.entry(), p.recordedVolume()
	if entry.Volume != nil || p.onItsWay() || recorded != nil && (recorded.Retaining || recorded.Retained || recorded.Released || recorded.Helper != nil || recorded.Snapshot != nil || recorded.Filled != nil) {
		return true
	}
	if p.physical != physicalOurs {
		return false
	}
	spec := field(p.Physical.Object, "spec")
	bound := text(spec, "volumeName")
	class := p.class(storageClassAbove(p.Physical.Object))
	switch strategy := class.Strategy; {
	case recorded == nil || recorded.Name != bound:
		return bound != "" && strategy.Moves() || recorded != nil && !strategy.Moves()
	case strategy == fleetv1alpha1.VolumesShared:
		return bound != "" && (recorded.Source == nil || recorded.Content != nil || volume.Undeclared(recorded.Source.Attributes, class.Attributes) != "")
	case strategy == fleetv1alpha1.VolumesCopy, strategy == fleetv1alpha1.VolumesSnapshot:
		return bound != "" && (recorded.Content == nil || recorded.Content.Driver != class.Driver || recorded.Source != nil)
	}
	return true
}

// onItsWay says that the volume of the claim is to be handed over, or was, and the claim is still
// there; or that another target has it, too.
func (p planner) onItsWay() bool {
	for name, other := range stamp.TargetsOf(p.Logical.GetAnnotations()) {
		switch {
		case name == p.Target && other.State == placementv1alpha1.TargetStateDraining,
			name != p.Target && other.State == placementv1alpha1.TargetStateWaiting,
			name != p.Target && other.Volume != nil && (other.Volume.From == p.Target || !other.Volume.Copied):
			return true
		}
	}
	return false
}

// volumeInUse has a volume that is given up looked at again.
func (p planner) volumeInUse() []Action {
	if v := p.recordedVolume(); p.Ref.Kind.IsClaim() && p.entry().State == placementv1alpha1.TargetStateDraining && (v == nil || !v.Released) {
		return wait(volumeInterval, "VolumeInUse")
	}
	return nil
}

func (p planner) recordedVolume() *placementv1alpha1.CopyVolume {
	if p.Copy == nil {
		return nil
	}
	return p.Copy.Status.Volume
}

func (p planner) class(name string) fleetv1alpha1.ClassVolumes {
	if p.Classes == nil {
		return fleetv1alpha1.ClassVolumes{}
	}
	return p.Classes(name)
}

// makeVolume is the volume for a claim that is handed over: bound to that claim only, and kept
// whatever becomes of it until the other copy is gone.
func (p planner) makeVolume(name string, s placementv1alpha1.VolumeSource) *unstructured.Unstructured {
	pv := &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{ReclaimPolicyAnnotation: string(s.ReclaimPolicy)}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: s.Capacity}, AccessModes: s.AccessModes, StorageClassName: p.Permits.StorageClass(s.StorageClass),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: p.Namespace.Name, Name: p.Ref.Name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: s.Driver, VolumeHandle: s.Handle, FSType: s.FSType, ReadOnly: s.ReadOnly, VolumeAttributes: s.Attributes,
			}},
		},
	}
	if s.VolumeMode != "" {
		pv.Spec.VolumeMode = ptr.To(s.VolumeMode)
	}
	labels, annotations := map[string]any{}, map[string]any{}
	markFor(p.ControlPlane, p.Ref, p.Logical.GetUID()).put(p.Ref.Kind.GroupResource(), labels, annotations)
	for key, value := range labels {
		pv.Labels[key], _ = value.(string)
	}
	for key, value := range annotations {
		pv.Annotations[key], _ = value.(string)
	}
	if s.Provisioned {
		pv.Annotations[provisionedBy] = s.Driver
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pv)
	if err != nil {
		panic(err) // no field of a PersistentVolume can fail to convert
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}
}

// madeVolume says that a volume was made for the claim.
func (p planner) madeVolume(pv *corev1.PersistentVolume) bool {
	mark, ok := MarkOf(p.Ref.Kind.GroupResource(), &metav1.ObjectMeta{Name: p.Ref.Name, Labels: pv.Labels, Annotations: pv.Annotations})
	return ok && p.ofClaim(pv) && mark == markFor(p.ControlPlane, p.Ref, p.Copy.Spec.Object.UID)
}

// ofClaim says that a volume is bound to the claim, or reserved for it.
func (p planner) ofClaim(pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == p.Namespace.Name && ref.Name == p.Ref.Name
}

// GivesVolumeUp says that a claim is to give up its volume, which is why it counts who uses it.
func GivesVolumeUp(in Input) bool {
	return in.Logical != nil && stamp.TargetsOf(in.Logical.GetAnnotations())[in.Target].State == placementv1alpha1.TargetStateDraining
}

// UsesClaim says that a pod below mounts a claim and has not ended.
func UsesClaim(pod *unstructured.Unstructured, claim string) bool {
	if labels := pod.GetLabels(); labels[HelperLabel] != "" && labels[placementv1alpha1.ManagedByLabel] == "" {
		return false // it reads only, and goes when the claim is not given up any more
	}
	if phase := text(field(pod.Object, "status"), "phase"); phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed) {
		return false
	}
	for _, v := range list(field(pod.Object, "spec"), "volumes") {
		if text(field(v, "persistentVolumeClaim"), "claimName") == claim {
			return true
		}
	}
	return false
}

// AttachedTo is the node that a VolumeAttachment attaches the volume of a claim to, for somebody else than the
// pod that reads it.
func AttachedTo(attachment *unstructured.Unstructured, in Input) (node string, ok bool) {
	spec := field(attachment.Object, "spec")
	node = text(spec, "nodeName")
	if in.Volume.Object == nil || text(field(spec, "source"), "persistentVolumeName") != in.Volume.Object.Name {
		return "", false
	}
	p, pod := planner{Input: in}, in.Volume.Helper
	if pod != nil && p.ownBeside(pod) && pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
		return "", false // who else mounts it there is a pod
	}
	return node, true
}

// VolumeFailure is that the physical cluster refused something about a volume.
func VolumeFailure(doing string, err error) *Failure {
	return &Failure{Reason: "VolumeRefused", Message: bounded(doing + ": " + err.Error())}
}
