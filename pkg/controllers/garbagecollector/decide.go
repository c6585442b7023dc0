package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerState says what a reference to an owner is worth.
type ownerState int

const (
	// solid: the owner exists and will not wait for its dependents to go.
	solid ownerState = iota
	// dangling: the owner does not exist.
	dangling
	// waiting: the owner is being deleted and waits for its dependents to go.
	waiting
)

// owner is a reference with what was found out about it.
type owner struct {
	uid   types.UID
	state ownerState
}

// dependent is what matters of an object that refers to the one in question.
type dependent struct {
	uid types.UID
	// blocking: its reference says blockOwnerDeletion.
	blocking bool
	// deletingDependents: it is being deleted and waits for its own dependents.
	deletingDependents bool
}

// verb says what to do.
type verb string

const (
	// leave the object alone.
	leave verb = "leave"
	// remove the references to the owners named in the action.
	removeOwners verb = "remove owners"
	// remove the object with the policy of the action.
	remove verb = "delete"
	// release the object: take the finalizer of the action off.
	release verb = "release"
	// orphan the dependents: take their references to the object off, then the
	// finalizer of the action.
	orphan verb = "orphan"
	// wait until the dependents named in the action are gone, and look at them.
	wait verb = "wait"
)

// action is a decision.
type action struct {
	verb      verb
	policy    metav1.DeletionPropagation
	finalizer string
	// uids are owners (removeOwners) or dependents (wait).
	uids []types.UID
	// unblock the references of the object to its owners before it is deleted,
	// since they may wait for each other in a circle.
	unblock bool
}

// decide says what to do with an object. Owners are needed only if it is not
// being deleted.
//
//	   deleting  finalizer   owners                     dependents  action
//	1  yes       orphan      -                          -           orphan
//	2  yes       foreground  -                          blocking    wait
//	3  yes       foreground  -                          none block  release
//	4  yes       neither     -                          -           leave
//	5  no        -           none                       -           leave
//	6  no        -           all solid                  -           leave
//	7  no        -           a solid one and others     -           remove the others
//	8  no        -           no solid, a waiting one    some        delete, Foreground
//	9  no        orphan      no solid one               (not 8)     delete, Orphan
//	10 no        foreground  no solid one               (not 8)     delete, Foreground
//	11 no        neither     no solid one               (not 8)     delete, Background
func decide(deleting bool, finalizers []string, owners []owner, dependents []dependent) action {
	orphans := slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	if deleting {
		return decideDeleting(orphans, foreground, dependents)
	}
	if len(owners) == 0 { // 5
		return action{verb: leave}
	}
	var others []types.UID
	hasSolid, hasWaiting := false, false
	for _, o := range owners {
		switch o.state {
		case solid:
			hasSolid = true
			continue
		case waiting:
			hasWaiting = true
		}
		others = append(others, o.uid)
	}
	switch {
	case hasSolid && len(others) == 0: // 6
		return action{verb: leave}
	case hasSolid: // 7
		return action{verb: removeOwners, uids: others}
	case hasWaiting && len(dependents) > 0: // 8
		return action{verb: remove, policy: metav1.DeletePropagationForeground,
			unblock: slices.ContainsFunc(dependents, func(d dependent) bool { return d.deletingDependents })}
	case orphans: // 9
		return action{verb: remove, policy: metav1.DeletePropagationOrphan}
	case foreground: // 10
		return action{verb: remove, policy: metav1.DeletePropagationForeground}
	default: // 11
		return action{verb: remove, policy: metav1.DeletePropagationBackground}
	}
}

func decideDeleting(orphans, foreground bool, dependents []dependent) action {
	switch {
	case orphans: // 1
		return action{verb: orphan, finalizer: metav1.FinalizerOrphanDependents}
	case foreground:
		a := action{verb: release, finalizer: metav1.FinalizerDeleteDependents} // 3
		for _, d := range dependents {
			if !d.blocking {
				continue
			}
			a.verb, a.finalizer = wait, "" // 2
			if !d.deletingDependents {
				a.uids = append(a.uids, d.uid)
			}
		}
		return a
	default: // 4
		return action{verb: leave}
	}
}
