package syncer

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/volume"
)

var (
	snapshotVersion = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}
	// SnapshotKind is what is made of a volume, and ContentKind what a snapshot is in the backend.
	SnapshotKind = snapshotVersion.WithKind("VolumeSnapshot")
	ContentKind  = snapshotVersion.WithKind("VolumeSnapshotContent")
	// Snapshots, SnapshotContents and SnapshotClasses are the resources.
	Snapshots        = snapshotVersion.WithResource("volumesnapshots")
	SnapshotContents = snapshotVersion.WithResource("volumesnapshotcontents")
	SnapshotClasses  = snapshotVersion.WithResource("volumesnapshotclasses")
)

// snapshotPart is what a snapshot is for at the claim.
type snapshotPart string

const (
	// noPart: there is to be none.
	noPart snapshotPart = ""
	// takenPart: it is made of the volume of the claim.
	takenPart snapshotPart = "taken"
	// restoredPart: the volume of the claim is made from it.
	restoredPart snapshotPart = "restored"
)

// SnapshotName is the name of the VolumeSnapshot of a claim on a physical cluster, and of the
// VolumeSnapshotContent where it is restored.
func SnapshotName(controlPlane string, claim types.UID) string {
	sum := sha256.Sum256([]byte(controlPlane + "/" + string(claim) + "/snapshot"))
	return "atoll-snapshot-" + hex.EncodeToString(sum[:12])
}

// SnapshotOf is the name of the VolumeSnapshot that is to be looked at; empty if there is none.
func SnapshotOf(in Input) string {
	p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
	if v := p.recordedVolume(); v != nil && v.Snapshot != nil {
		return v.Snapshot.Name
	}
	if p.Logical != nil && p.snapshotPart() != noPart {
		return SnapshotName(p.ControlPlane, p.Logical.GetUID())
	}
	return ""
}

// SnapshotContentOf is the name of the VolumeSnapshotContent that is to be looked at: the one that was made for a
// VolumeSnapshot of the claim, else the one that we make.
func SnapshotContentOf(in Input) string {
	if snapshot := in.Volume.Snapshot; snapshot != nil && text(field(field(snapshot.Object, "spec"), "source"), "persistentVolumeClaimName") != "" {
		return text(field(snapshot.Object, "status"), "boundVolumeSnapshotContentName")
	}
	return SnapshotOf(in)
}

// snapshotPart is what the snapshot of the claim is for.
//
//	entry here                   its Copy says              the claim      then
//	Draining                     released, with content of  ours           taken
//	                             a driver
//	restored from a snapshot     not filled                 ours, or none  restored
//	any other                    any                        any            none
func (p planner) snapshotPart() snapshotPart {
	entry, recorded := p.entry(), p.recordedVolume()
	if !p.Ref.Kind.IsClaim() || p.logical != logicalLive || p.copy != copyCurrent {
		return noPart
	}
	switch {
	case entry.State == placementv1alpha1.TargetStateDraining:
		if p.physical == physicalOurs && p.Physical.GetDeletionTimestamp() == nil && recorded != nil && recorded.Released && recorded.Content != nil && recorded.Content.Driver != "" {
			return takenPart
		}
	case entry.Keeps() && entry.Volume != nil && entry.Volume.Snapshot != nil && (recorded == nil || recorded.Filled == nil):
		if p.physical == physicalNone || p.physical == physicalOurs {
			return restoredPart
		}
	}
	return noPart
}

// snapshot is what has to be done about the snapshot that is made of the volume of a claim, or restored to it.
//
//	part              recorded   content       VolumeSnapshot       then
//	none              any        any           there                DeleteHelper
//	none              any        there         none                 DeleteHelper
//	none              any        none          none                 nothing: WriteCopy without it, see snapshotReport
//	taken             any        any           of another claim     DeleteHelper: another one is made
//	                                           below
//	restored          any        of another    any                  DeleteHelper, both of them
//	                             handle
//	any               any        any           being deleted        Wait
//	taken, restored   no         any           any                  WriteCopy: the record comes first
//	restored          yes        none          any                  MakeHelper: the content
//	taken, restored   yes        any           none                 MakeHelper
//	taken             yes        any           there                Wait: who uses the volume is looked at again
//	restored          yes        there         is not ready         Wait
//	restored          yes        there         ready                nothing
//
// The content that a driver made for a VolumeSnapshot of ours goes with it, and the snapshot in the backend: it
// has the policy Delete. The one that we made has Retain: it never takes along what another physical cluster made.
func (p planner) snapshot() []Action {
	part, recorded := p.snapshotPart(), p.recordedVolume()
	isRecorded := recorded != nil && recorded.Snapshot != nil
	if part == noPart && !isRecorded {
		return nil
	}
	if !p.Volume.Looked {
		return []Action{{Verb: LookAtVolume, Why: "Snapshot"}}
	}
	if actions := p.removeSnapshot(part); len(actions) > 0 {
		return actions
	}
	made, content := p.Volume.Snapshot, p.Volume.SnapshotContent
	switch {
	case part == noPart:
		return nil
	case !isRecorded:
		return p.recordBeside(func(v *placementv1alpha1.CopyVolume) {
			v.Snapshot = &placementv1alpha1.VolumeSnapshot{Name: SnapshotName(p.ControlPlane, p.claimUID())}
		})
	case part == restoredPart && content == nil:
		return []Action{{Verb: MakeHelper, Object: p.restoredContent(), Why: string(part)}}
	case made == nil && part == restoredPart:
		return []Action{{Verb: MakeHelper, Object: p.restoredSnapshot(), Why: string(part)}}
	case made == nil:
		return []Action{{Verb: MakeHelper, Object: p.takenSnapshot(), Why: string(part)}}
	case part == takenPart && p.snapshotLacks(part) == "":
		return wait(sendingInterval, "Snapshot")
	case p.snapshotLacks(part) != "":
		return wait(volumeInterval, "Snapshot")
	}
	return nil
}

// removeSnapshot removes what is not wanted of a snapshot, its VolumeSnapshot first; none: all that is there is wanted.
func (p planner) removeSnapshot(part snapshotPart) []Action {
	made, content := p.Volume.Snapshot, p.Volume.SnapshotContent
	old := part == noPart
	switch part {
	case takenPart:
		old = made != nil && !metav1.IsControlledBy(made, p.Physical)
	case restoredPart:
		old = content != nil && p.ownBeside(content) && handleOf(content) != p.entry().Volume.Snapshot.Handle
	}
	for _, obj := range []*unstructured.Unstructured{made, content} {
		switch {
		case obj == nil || !p.ownBeside(obj):
		case obj.GetDeletionTimestamp() != nil:
			return wait(volumeInterval, "SnapshotGoes")
		case old:
			return []Action{{Verb: DeleteHelper, UID: obj.GetUID(), Object: besideNamed(obj), Why: "SnapshotDone"}}
		}
	}
	return nil
}

// snapshotBeforeRemoval: a snapshot goes before the claim of which it was made, or into which it is restored.
func (p planner) snapshotBeforeRemoval() (_ []Action, done bool) {
	actions := p.removeSnapshot(noPart)
	return actions, len(actions) == 0
}

// snapshotNotOurs is why there can be no snapshot although there is to be one; nil if there can.
func (p planner) snapshotNotOurs() *Failure {
	part := p.snapshotPart()
	if part == noPart {
		return nil
	}
	made := []*unstructured.Unstructured{p.Volume.Snapshot}
	if part == restoredPart {
		made = append(made, p.Volume.SnapshotContent)
	}
	for _, obj := range made {
		if obj != nil && !p.ownBeside(obj) {
			return &Failure{Reason: "SnapshotNotOurs", Message: "a " + obj.GetKind() + " of the name " + obj.GetName() + " that was made by somebody else is on the physical cluster"}
		}
	}
	if p.snapshotClass(part).Snapshot == nil {
		return &Failure{Reason: "VolumeNotSnapshotted", Message: "volumes of the class and the driver are not declared to have snapshots here"}
	}
	return nil
}

// snapshotClass is what an admin declared of the class of the claim; nothing of another driver.
func (p planner) snapshotClass(part snapshotPart) fleetv1alpha1.ClassVolumes {
	var class, driver string
	if part == restoredPart {
		class, driver = p.entry().Volume.Snapshot.StorageClass, p.entry().Volume.Snapshot.Driver
	} else if v := p.recordedVolume(); v != nil && v.Content != nil {
		class, driver = v.Content.StorageClass, v.Content.Driver
	}
	declared := p.class(class)
	if declared.Strategy != fleetv1alpha1.VolumesSnapshot || declared.Driver != driver {
		return fleetv1alpha1.ClassVolumes{}
	}
	return declared
}

// restore is what has to be done before a claim is made whose volume is restored from a snapshot.
//
//	the claim   the snapshot    then
//	none        not ready       it is made, and the Copy says what it waits for
//	none        ready           done
//	there       any             done, if it was made from the snapshot; else WriteCopy Failed
func (p planner) restore() (_ []Action, done bool) {
	recorded := p.recordedVolume()
	if !p.Volume.Looked {
		return []Action{{Verb: LookAtVolume, Why: string(restoredPart)}}, false
	}
	if failure := p.snapshotNotOurs(); failure != nil {
		return p.fail(*failure), false
	}
	if p.physical != physicalNone {
		if (recorded == nil || recorded.Filled == nil) && !p.isRestored() {
			return p.fail(Failure{Reason: "OtherVolume", Message: "the claim was not made from the snapshot that was handed over"}), false
		}
		return nil, true
	}
	lacks := p.snapshotLacks(restoredPart)
	status := p.status(placementv1alpha1.CopyPending, "Snapshot", lacks)
	status.Volume = &placementv1alpha1.CopyVolume{Snapshot: &placementv1alpha1.VolumeSnapshot{Name: SnapshotName(p.ControlPlane, p.claimUID()), Message: lacks}}
	if actions := p.write(status, p.Logical.GetUID()); len(actions) > 0 {
		return actions, false
	}
	actions := p.snapshot()
	return actions, len(actions) == 0
}

// isRestored says that the claim below was made from a snapshot.
func (p planner) isRestored() bool {
	source := field(field(p.Physical.Object, "spec"), "dataSource")
	return text(source, "kind") == SnapshotKind.Kind && text(source, "name") == SnapshotName(p.ControlPlane, p.claimUID())
}

// setSource says what a claim below is made from. That cannot be changed afterwards, and what a user wrote there is of
// the physical cluster on which the claim was at first.
//
//	the claim below            its entry           then it is made from
//	is not there               has a snapshot      the snapshot
//	is not there               has data to copy    nothing
//	was made from ours         any                 the snapshot
//	was made from nothing      any                 nothing
//	any other                  any                 what its user wrote, if anything
func (p planner) setSource(desired *unstructured.Unstructured) {
	if !p.Ref.Kind.IsClaim() {
		return
	}
	v, snapshot := p.entry().Volume, false
	if p.physical == physicalNone {
		if v == nil || !v.Copied {
			return
		}
		snapshot = v.Snapshot != nil
	} else if snapshot = p.isRestored(); !snapshot && field(field(p.Physical.Object, "spec"), "dataSource") != nil {
		return
	}
	spec := field(desired.Object, "spec")
	delete(spec, "dataSource")
	delete(spec, "dataSourceRef")
	if snapshot {
		setNested(desired.Object, map[string]any{"apiGroup": SnapshotKind.Group, "kind": SnapshotKind.Kind, "name": SnapshotName(p.ControlPlane, p.claimUID())}, "spec", "dataSource")
	}
}

// snapshotReport is what the Copy is to say of the snapshot.
//
//	part     objects of ours    then
//	taken    ready              Snapshot, and Content with what another physical cluster restores
//	any      there              Snapshot, with what it waits for
//	not none none, recorded     Snapshot as recorded
//	none     none               no Snapshot
func (p planner) snapshotReport(out, recorded *placementv1alpha1.CopyVolume) {
	part, name := p.snapshotPart(), SnapshotName(p.ControlPlane, p.claimUID())
	there := false
	for _, obj := range []*unstructured.Unstructured{p.Volume.Snapshot, p.Volume.SnapshotContent} {
		there = there || obj != nil && p.ownBeside(obj)
	}
	switch {
	case there:
		out.Snapshot = &placementv1alpha1.VolumeSnapshot{Name: name, Message: p.snapshotLacks(part)}
	case part != noPart && recorded != nil && recorded.Snapshot != nil:
		out.Snapshot = recorded.Snapshot.DeepCopy()
	}
	if part == takenPart && out.Released && out.Content != nil {
		out.Content.Snapshot, _ = p.taken()
	}
}

// snapshotLacks is what a snapshot waits for; empty once it can be handed over, or restored.
func (p planner) snapshotLacks(part snapshotPart) (why string) {
	switch part {
	case takenPart:
		_, why = p.taken()
	case restoredPart:
		why = p.unready()
	default:
		why = "it is being removed"
	}
	return bounded(why)
}

// unready is why a VolumeSnapshot cannot be used; empty if it can.
func (p planner) unready() string {
	made, content := p.Volume.Snapshot, p.Volume.SnapshotContent
	for _, obj := range []*unstructured.Unstructured{made, content} {
		if obj == nil {
			continue
		}
		if message := text(field(field(obj.Object, "status"), "error"), "message"); message != "" {
			return message
		}
	}
	if made == nil || content == nil {
		return "it is not made yet"
	}
	status := field(made.Object, "status")
	ready, _ := status["readyToUse"].(bool)
	ref := field(field(content.Object, "spec"), "volumeSnapshotRef")
	switch {
	case !ready || made.GetDeletionTimestamp() != nil:
		return "it is not ready to use yet"
	case text(status, "boundVolumeSnapshotContentName") != content.GetName() || text(ref, "uid") != string(made.GetUID()):
		return "it is bound to a content that is not bound to it"
	}
	return ""
}

// taken is the snapshot of the volume of the claim; nil if there is none that another physical cluster can restore,
// with the reason. Of content and class nothing else is said: annotations and parameters name Secrets.
func (p planner) taken() (_ *placementv1alpha1.SnapshotSource, why string) {
	if why := p.unready(); why != "" {
		return nil, why
	}
	pv, content := p.Volume.Object, p.Volume.SnapshotContent
	spec, status := field(content.Object, "spec"), field(content.Object, "status")
	declared := p.snapshotClass(takenPart)
	switch {
	case !p.ownBeside(p.Volume.Snapshot) || !metav1.IsControlledBy(p.Volume.Snapshot, p.Physical):
		return nil, "it was made by somebody else, or of another claim of this name"
	case pv == nil || pv.Spec.CSI == nil || text(field(spec, "source"), "volumeHandle") != pv.Spec.CSI.VolumeHandle:
		return nil, "its content is one of another volume"
	case declared.Driver == "" || text(spec, "driver") != declared.Driver:
		return nil, "it is one of the driver " + text(spec, "driver") + ", and " + declared.Driver + " is declared"
	case text(spec, "deletionPolicy") != string(corev1.PersistentVolumeReclaimDelete):
		return nil, "it would stay in the backend: its content has the deletionPolicy " + text(spec, "deletionPolicy")
	}
	source := &placementv1alpha1.SnapshotSource{StorageClass: storageClassAbove(p.Physical.Object), Driver: declared.Driver, Handle: text(status, "snapshotHandle")}
	if size, ok := status["restoreSize"].(int64); ok && size > 0 {
		source.RestoreSize = resource.NewQuantity(size, resource.BinarySI)
	}
	if asked := volume.ClaimOf(p.Logical.Object).Size; source.RestoreSize != nil && source.RestoreSize.Cmp(asked) > 0 {
		return nil, "it needs a volume of " + source.RestoreSize.String() + ", and the claim asks for " + asked.String()
	}
	if errs := volume.ValidateSnapshot(source, nil); len(errs) > 0 {
		return nil, errs[0].Error()
	}
	return source, ""
}

// SnapshottedOf says that a volume can be restored from a snapshot of it; nil if it cannot, with the reason. class is the
// one that its claim names, asked what that asks for: a driver may have made it larger, and its snapshots with it.
func SnapshottedOf(pv *corev1.PersistentVolume, class, driver string, asked resource.Quantity) (_ *placementv1alpha1.VolumeContent, why string) {
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case pv.Spec.CSI == nil:
		return nil, "it is no CSI volume"
	case pv.Spec.CSI.Driver != driver:
		return nil, bounded("it is one of the driver " + pv.Spec.CSI.Driver + ", and " + driver + " is declared")
	case capacity.Cmp(asked) > 0:
		return nil, "it has " + capacity.String() + ", and its claim asks for " + asked.String() + ": have it ask for as much"
	}
	return &placementv1alpha1.VolumeContent{StorageClass: class, Capacity: capacity, Driver: driver}, ""
}

func handleOf(content *unstructured.Unstructured) string {
	return text(field(field(content.Object, "spec"), "source"), "snapshotHandle")
}

// takenSnapshot is the VolumeSnapshot of the claim below: it goes with that.
func (p planner) takenSnapshot() *unstructured.Unstructured {
	obj := p.snapshotOf(p.helperClass(), map[string]any{"persistentVolumeClaimName": p.Ref.Name})
	obj.SetOwnerReferences([]metav1.OwnerReference{p.ofClaimBelow()})
	return obj
}

// restoredSnapshot is the VolumeSnapshot from which the claim is made.
func (p planner) restoredSnapshot() *unstructured.Unstructured {
	return p.snapshotOf(p.snapshotClass(restoredPart), map[string]any{"volumeSnapshotContentName": SnapshotName(p.ControlPlane, p.claimUID())})
}

func (p planner) snapshotOf(class fleetv1alpha1.ClassVolumes, source map[string]any) *unstructured.Unstructured {
	obj := p.beside(SnapshotKind, SnapshotName(p.ControlPlane, p.claimUID()))
	obj.SetNamespace(p.Namespace.Name)
	spec := map[string]any{"source": source}
	if class.Snapshot != nil {
		spec["volumeSnapshotClassName"] = class.Snapshot.VolumeSnapshotClass
	}
	obj.Object["spec"] = spec
	return obj
}

// restoredContent is a snapshot that another physical cluster has made, for the one VolumeSnapshot of the claim.
func (p planner) restoredContent() *unstructured.Unstructured {
	name, source := SnapshotName(p.ControlPlane, p.claimUID()), p.entry().Volume.Snapshot
	obj := p.beside(ContentKind, name)
	mode := corev1.PersistentVolumeFilesystem
	if volume.ClaimOf(p.Logical.Object).Block {
		mode = corev1.PersistentVolumeBlock
	}
	spec := map[string]any{
		"driver": source.Driver, "deletionPolicy": string(corev1.PersistentVolumeReclaimRetain), "sourceVolumeMode": string(mode),
		"source":            map[string]any{"snapshotHandle": source.Handle},
		"volumeSnapshotRef": map[string]any{"apiVersion": snapshotVersion.String(), "kind": SnapshotKind.Kind, "namespace": p.Namespace.Name, "name": name},
	}
	if class := p.snapshotClass(restoredPart); class.Snapshot != nil {
		spec["volumeSnapshotClassName"] = class.Snapshot.VolumeSnapshotClass
	}
	obj.Object["spec"] = spec
	return obj
}
