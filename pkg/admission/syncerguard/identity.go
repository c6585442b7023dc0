package syncerguard

import (
	"fmt"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// checkIdentity: a syncer records the cluster that it meets first. That another one
// takes its place, or that an emptied one is filled again, is for an admin to
// confirm, in the spec; that no other PhysicalCluster is the same, for the server.
//
//	recorded uid   written uid   spec.identity
//	any            the same      any             permitted
//	none           another       none            permitted: the first contact
//	any            another       the written     permitted: confirmed
//	any            none, other   anything else   forbidden
//
// An emptied cluster that has its namespaces again needs no confirmation, and only
// the syncer knows of them; but it cannot make a confirmation fit that was given
// before.
func checkIdentity(w Write) error {
	if w.Object == nil || w.Old == nil {
		return nil // asked again once the object is known
	}
	written, ok := w.Object.(*fleetv1alpha1.PhysicalCluster)
	old, okOld := w.Old.(*fleetv1alpha1.PhysicalCluster)
	if !ok || !okOld {
		return fmt.Errorf("unexpected type %T of a PhysicalCluster", w.Object)
	}
	if w.stale() {
		return nil
	}
	was, is, confirmed := old.Status.Identity, written.Status.Identity, old.Spec.Identity
	first := was.UID == "" && confirmed == ""
	switch {
	case is.UID != was.UID && (is.UID == "" || !first && is.UID != confirmed):
		return fmt.Errorf("the syncer of %s may not replace the identity %q by %q: an admin confirms that in spec.identity", w.Target, was.UID, is.UID)
	case is.UID == was.UID && (is.Accepted != was.Accepted || is.SameAs != was.SameAs),
		is.UID != was.UID && (is.Accepted != "" || is.SameAs != ""):
		return fmt.Errorf("the syncer of %s may not write status.identity.accepted and sameAs: the server does", w.Target)
	case is.Emptied != nil && old.Spec.Emptied != nil && !is.Emptied.Equal(was.Emptied) && is.Emptied.Unix() == old.Spec.Emptied.Unix():
		return fmt.Errorf("the syncer of %s may not write the time in status.identity.emptied that an admin has confirmed before", w.Target)
	}
	return nil
}
