package syncer

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

type (
	logicalClass  string
	copyClass     string
	physicalClass string
)

const (
	logicalLive     logicalClass = "live"
	logicalGoing    logicalClass = "going"
	logicalObserved logicalClass = "observed"
	logicalAbsent   logicalClass = "absent"

	copyNone    copyClass = "none"
	copyCurrent copyClass = "current"
	copyStale   copyClass = "stale"
	copyRemoved copyClass = "Removed"

	physicalNone    physicalClass = "none"
	physicalOurs    physicalClass = "ours"
	physicalOld     physicalClass = "old"
	physicalForeign physicalClass = "foreign"
)

func classifyLogical(in Input) logicalClass {
	if in.Logical == nil {
		return logicalAbsent
	}
	entry, ok := stamp.TargetsOf(in.Logical.GetAnnotations())[in.Target]
	switch {
	case !ok:
		return logicalAbsent
	case entry.State == placementv1alpha1.TargetObserved:
		return logicalObserved
	case entry.NoCopy():
		return logicalAbsent // nothing is to be made yet, or any more
	}
	removing := entry.State == placementv1alpha1.TargetStateRemoving
	deleted := in.Logical.GetDeletionTimestamp() != nil
	if in.Ref.IsNamespace() {
		// The physical namespace takes everything in it along: it goes last.
		finalizers, _, _ := unstructured.NestedStringSlice(in.Logical.Object, "spec", "finalizers")
		deleted = deleted && len(finalizers) == 0 && in.Contents == 0
		removing = removing && in.Contents == 0
	}
	if deleted || removing {
		return logicalGoing
	}
	return logicalLive
}

func classifyCopy(in Input) copyClass {
	switch {
	case in.Copy == nil:
		return copyNone
	case in.Copy.Status.State == placementv1alpha1.CopyRemoved:
		return copyRemoved
	case in.Logical != nil && in.Copy.Spec.Object.UID != in.Logical.GetUID():
		return copyStale
	}
	return copyCurrent
}

func classifyPhysical(in Input) physicalClass {
	if in.Physical == nil {
		return physicalNone
	}
	uid := incarnation(in)
	switch {
	case uid == "" && adopts(in):
		return physicalOurs
	case uid == "":
		return physicalForeign
	case in.Logical != nil && uid == in.Logical.GetUID():
		return physicalOurs
	case in.Copy != nil && uid == in.Copy.Spec.Object.UID:
		if in.Logical != nil && classifyCopy(in) == copyRemoved {
			return physicalOld
		}
		return physicalOurs
	}
	order, listed := in.orphan()
	l := classifyLogical(in)
	switch {
	case !listed || l != logicalLive && l != logicalGoing:
		return physicalOld
	case l == logicalLive && order == fleetv1alpha1.OrphanAdopt:
		return physicalOurs
	}
	return physicalForeign
}

// orphan is the order for the physical object if it is listed as an Orphan.
func (in Input) orphan() (order fleetv1alpha1.OrphanOrder, listed bool) {
	if in.Physical == nil || in.Orphan == nil {
		return "", false
	}
	return in.Orphan(in.Physical.GetUID())
}

// inTheWay says what has the place of the copy.
func (p planner) inTheWay() Failure {
	if incarnation(p.Input) == "" {
		return NotOurs
	}
	return Failure{Reason: ReasonOrphanInTheWay, Message: "the copy of an object that is gone has its name on the physical cluster; an admin decides what becomes of it: " +
		"see Orphan " + OrphanName(p.Target, p.Physical.GetUID()) + " in root, with the orders Remove and Adopt"}
}

// incarnation is the UID of the logical object that the physical one is the copy
// of: by its mark, or, should somebody have removed that, by what the Copy
// recorded. It is empty if the object is not ours.
func incarnation(in Input) types.UID {
	mark, ok := MarkOf(in.Ref.Kind.GroupResource(), in.Physical)
	if ok && mark.sameObject(markFor(in.ControlPlane, in.Ref, "")) {
		if in.Ref.Kind.Carries && in.Logical != nil {
			return in.Logical.GetUID() // a Manifest of the name goes on with what is there: others may need it
		}
		return mark.UID
	}
	if in.Ref.Kind.Carries && (ok || othersMark(in)) {
		return "" // somebody else has it by now, whatever was recorded
	}
	if in.Copy != nil && in.Copy.Status.PhysicalUID != "" && in.Copy.Status.PhysicalUID == in.Physical.GetUID() {
		if in.Ref.Kind.Carries && in.Logical != nil {
			return in.Logical.GetUID()
		}
		return in.Copy.Spec.Object.UID
	}
	if !ok && in.Ref.Kind.IsClaim() && in.Logical != nil {
		if WasMirrored(in.Target, in.Logical, in.Physical.GetUID()) {
			return in.Logical.GetUID()
		}
	}
	return ""
}

// WasMirrored says that a claim is a copy on a target now of what it mirrored from there, which has
// the given UID.
func WasMirrored(target string, claim *unstructured.Unstructured, uid types.UID) bool {
	entry := stamp.TargetsOf(claim.GetAnnotations())[target]
	return entry.UID == uid && entry.State != placementv1alpha1.TargetObserved
}

func (p planner) incarnation() types.UID { return incarnation(p.Input) }

// finished says that the copy ran to its end, so that somebody who tidies up
// below does not start it again.
func finished(kind workload.Kind, c *placementv1alpha1.Copy) bool {
	status := observedStatus(c)
	for _, name := range kind.Finished.Conditions {
		if conditionIs(status, name, "True") {
			return true
		}
	}
	phase, _ := status["phase"].(string)
	return slices.Contains(kind.Finished.Phases, phase)
}

// scaledByOthers says that somebody else owns the replica count of a copy, so
// that leaving it out of the apply does not reset it.
func scaledByOthers(kind workload.Kind, physical *unstructured.Unstructured) bool {
	for _, e := range physical.GetManagedFields() {
		if e.Manager == FieldManager && e.Operation == "Apply" || e.FieldsV1 == nil {
			continue
		}
		if ownsPath(e.FieldsV1.GetRawBytes(), kind.Replicas) {
			return true
		}
	}
	return false
}
