package syncer

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
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
	return physicalOld
}

// incarnation is the UID of the logical object that the physical one is the copy
// of: by its mark, or, should somebody have removed that, by what the Copy
// recorded. It is empty if the object is not ours.
func incarnation(in Input) types.UID {
	mark, ok := MarkOf(in.Ref.Kind.GroupResource(), in.Physical)
	if ok && mark.sameObject(markFor(in.ControlPlane, in.Ref, "")) {
		return mark.UID
	}
	if in.Copy != nil && in.Copy.Status.PhysicalUID != "" && in.Copy.Status.PhysicalUID == in.Physical.GetUID() {
		return in.Copy.Spec.Object.UID
	}
	return ""
}

func (p planner) incarnation() types.UID { return incarnation(p.Input) }

// finished says that the copy ran to its end, so that somebody who tidies up
// below does not start it again.
func finished(kind string, c *placementv1alpha1.Copy) bool {
	status := observedStatus(c)
	switch kind {
	case "Job":
		return conditionIs(status, "Complete", "True") || conditionIs(status, "Failed", "True")
	case "Pod":
		return status["phase"] == "Succeeded" || status["phase"] == "Failed"
	}
	return false
}

// scaledByOthers says that somebody else owns the replica count of a copy, so
// that leaving it out of the apply does not reset it.
func scaledByOthers(physical *unstructured.Unstructured) bool {
	for _, e := range physical.GetManagedFields() {
		if e.Manager == FieldManager && e.Operation == "Apply" || e.FieldsV1 == nil {
			continue
		}
		if ownsReplicas(e.FieldsV1.GetRawBytes()) {
			return true
		}
	}
	return false
}
