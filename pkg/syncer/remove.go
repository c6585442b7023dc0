package syncer

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// straysInterval is how often a physical namespace that would take along what has no Copy is looked at.
const straysInterval = 2 * time.Second

// absent: cells 12 to 14.
func (p planner) absent() []Action {
	if p.copy == copyNone {
		if p.physical == physicalOurs || p.physical == physicalOld {
			return []Action{{Verb: Report, UID: p.Physical.GetUID(), Why: "Orphan"}}
		}
		return nil
	}
	uid := p.Copy.Spec.Object.UID
	if !p.gone(uid) {
		return []Action{{Verb: AskServer, UID: uid, Why: "NotInView"}}
	}
	if p.Ref.IsNamespace() && p.Contents > 0 {
		return nil // it goes after everything in it
	}
	return p.remove(uid, reasonGone)
}

// observed: cells 12 and 15.
func (p planner) observed() []Action {
	stray := (p.physical == physicalOurs || p.physical == physicalOld) && p.Physical.GetUID() != p.entry().UID
	if p.copy == copyNone && stray {
		return []Action{{Verb: Report, UID: p.Physical.GetUID(), Why: "Orphan"}}
	}
	return nil
}

// finishStale: cells 3 and 4. The new object waits until its predecessor is gone. That
// the name has another UID by now proves nothing alone: who sees it may not have heard
// that a backup brought the predecessor back.
func (p planner) finishStale() []Action {
	uid := p.Copy.Spec.Object.UID
	if !p.gone(uid) {
		return []Action{{Verb: AskServer, UID: uid, Why: reasonOtherIncarnation}}
	}
	if p.Ref.IsNamespace() && p.Contents > 0 {
		return nil // it goes after everything in it
	}
	if p.physical == physicalOld && p.incarnation() != uid {
		return p.deleteIncarnation()
	}
	return p.remove(uid, reasonOtherIncarnation)
}

// deleteIncarnation: cell 6, what is below is the copy of an object that had the name before.
func (p planner) deleteIncarnation() []Action {
	if uid := p.incarnation(); !p.gone(uid) {
		return []Action{{Verb: AskServer, UID: uid, Why: reasonOtherIncarnation}}
	}
	return p.delete(p.Logical, reasonOtherIncarnation)
}

// gone says that the server said so.
func (p planner) gone(uid types.UID) bool { return slices.Contains(p.Gone, uid) }

// remove: cells 3, 4, 10 and 11, for the incarnation uid.
func (p planner) remove(uid types.UID, why string) []Action {
	if p.unreachable() {
		why := p.notKnown()
		return p.write(p.status(placementv1alpha1.CopyRemoving, why.Reason, why.Message), uid)
	}
	below := p.physical == physicalOurs || p.physical == physicalOld
	if p.copy == copyStale && p.physical == physicalOurs && p.incarnation() != uid {
		below = false // it belongs to the new object
	}
	if below && p.logical == logicalAbsent && p.incarnation() != uid {
		below = false // of this one nobody said that it is gone
	}
	if actions, done := p.volumeBeforeRemoval(below); !done {
		return actions
	}
	if below && p.keepsBelow() {
		if actions := p.unmark(); actions != nil && p.Failure == nil {
			return append(p.write(p.status(placementv1alpha1.CopyRemoving, why, ""), uid), actions...)
		} else if actions == nil {
			below = false
		}
	}
	if !below {
		return p.write(p.status(placementv1alpha1.CopyRemoved, "", ""), uid)
	}
	if p.Ref.IsNamespace() && p.logical == logicalGoing && p.Logical.GetDeletionTimestamp() == nil && p.Physical.GetDeletionTimestamp() == nil && p.Strays > 0 {
		return append(p.write(p.status(placementv1alpha1.CopyRemoving, placementv1alpha1.ReasonOrphansInside,
			fmt.Sprintf("%d objects without a Copy are in the physical namespace, which would take them along: an admin decides, see Orphans in root", p.Strays)), uid),
			wait(straysInterval, "OrphansInside")...)
	}
	message, reason := "", why
	if p.Physical.GetDeletionTimestamp() != nil {
		if why == reasonRemoving && p.Ref.IsNamespace() {
			reason = placementv1alpha1.ReasonTerminating // what it held is gone: a move does not wait for its end
		}
		if f := p.Physical.GetFinalizers(); len(f) > 0 {
			message = "waiting for finalizers on the physical cluster: " + bounded(join(f))
		}
	}
	if p.Failure == nil && p.leavesWithRuns(why) {
		return p.stopRuns(uid, why)
	}
	status := p.status(placementv1alpha1.CopyRemoving, reason, message)
	if p.Failure != nil {
		status = p.status(placementv1alpha1.CopyRemoving, p.Failure.Reason, p.Failure.Message)
		return p.write(status, uid)
	}
	actions := p.write(status, uid)
	if p.Physical.GetDeletionTimestamp() != nil {
		return actions
	}
	if p.physical == physicalOld && p.incarnation() != uid && !p.gone(p.incarnation()) {
		if len(actions) > 0 {
			return actions // the record comes first
		}
		return p.deleteIncarnation()
	}
	return append(actions, p.deleteLast(why)...)
}

// deleteLast removes what is below, once nothing goes along that may be needed: a Namespace that leaves takes
// the claims in it along. Those that were its own are gone, and acknowledged; if there are any, the physical
// cluster was restored from a backup of before, and their volumes may be in use elsewhere by now.
//
//	the Namespace            a claim in it   its volume            then
//	is deleted by its user   any             any                   Delete, as its reclaim policy says
//	leaves, or is another    none            none                  Delete
//	leaves, or is another    is there        would go with it      UpdateVolume: it is kept
//	leaves, or is another    is there        is kept, or none      Delete
//
// Another one is a Namespace that was made anew under the name.
func (p planner) deleteLast(why string) []Action {
	if !p.Ref.IsNamespace() || p.Logical == nil || p.Logical.GetDeletionTimestamp() != nil {
		return p.delete(p.Logical, why)
	}
	if p.Volume.Looked && p.Volume.Object == nil {
		return p.delete(p.Logical, why)
	}
	if pv := p.Volume.Object; pv != nil {
		if actions := keepVolume(pv); len(actions) > 0 {
			return actions
		}
	}
	return []Action{{Verb: LookAtVolume, Why: why}} // perhaps there is another one
}

// GoesAlong says that the data of a volume would go with a claim below that is bound to it.
func GoesAlong(pv *corev1.PersistentVolume, claim types.UID) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim && pv.DeletionTimestamp == nil && pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain
}

// delete removes what is below. How follows the deletion of the logical object. What stays
// above is gone here once its pods have ended, if it leaves or must not run twice: that may
// start elsewhere then, what pods mount and what rules them goes after them, and who comes
// back finds no pods of before, which would count as ready until they are collected.
func (p planner) delete(logical *unstructured.Unstructured, why string) []Action {
	a := Action{Verb: Delete, UID: p.Physical.GetUID(), Propagation: metav1.DeletePropagationBackground, Why: why}
	if appliedOrdinals(p.Physical) > 0 { // another one of the name may be given its ordinals elsewhere
		a.Propagation = metav1.DeletePropagationForeground
	}
	if logical == nil {
		return []Action{a}
	}
	if logical.GetDeletionTimestamp() == nil {
		leaves := stamp.TargetsOf(logical.GetAnnotations())[p.Target].State == placementv1alpha1.TargetStateRemoving
		if leaves && p.Ref.Kind.PodTemplate != nil && !p.Ref.Kind.IsPod() || workload.StopsFirst(p.Ref.Kind, logical.Object) {
			a.Propagation = metav1.DeletePropagationForeground
		}
		return []Action{a}
	}
	if by := propagation(logical); by != metav1.DeletePropagationBackground || appliedOrdinals(p.Physical) == 0 {
		a.Propagation = by
	}
	// Zero says nothing about a Pod without a node: it gets zero whatever the user
	// asked for.
	node, _ := field(logical.Object, "spec")["nodeName"].(string)
	if grace := logical.GetDeletionGracePeriodSeconds(); p.Ref.Kind.IsPod() && grace != nil && (*grace > 0 || node != "") {
		a.Grace = grace
	}
	return []Action{a}
}

// propagation is how an object is being deleted: what is to become of its
// dependents.
func propagation(deleting *unstructured.Unstructured) metav1.DeletionPropagation {
	switch f := deleting.GetFinalizers(); {
	case slices.Contains(f, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(f, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
