// Package copies ends the life of Copies: it takes note of removals that syncers
// acknowledged. It removes our finalizer from a deleted object when every target
// has acknowledged, drops a Removing entry from the targets annotation when its
// target has, and deletes Copies that have served their purpose. When a Namespace
// goes, its Copies and Placements go with it. What a syncer says that a controller
// below has adopted it checks, and makes the object one that was mirrored (adopt.go).
//
// Invariant: the finalizer is removed and an entry dropped only on the ground of a
// Copy in state Removed that records the UID of the object, or of a PhysicalCluster
// that an admin gave up and that never had a Copy. Decide is pure and has the
// table; this package writes to the control plane only and deletes nothing on a
// physical cluster.
package copies
