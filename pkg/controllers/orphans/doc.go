// Package orphans is the server's part in what becomes of orphans: objects of
// physical clusters that carry our mark and belong to nothing here.
//
// It says whether the object that an Orphan claims to be the copy of exists (the
// condition ObjectExists), asked for live and by UID, in the logical cluster that
// its mark names: the syncer sees no more than what is placed on its physical
// cluster. It gives each Orphan the order that its PhysicalCluster has for all
// (spec.orphans), so that there is one place where an order is. It removes the
// Orphans of a physical cluster that is not registered any more, which itself is
// left as it is, and those beyond the bound.
//
// Everything else, above all the removal, is the syncer's: see syncer.PlanOrphan.
//
// What is decided is in decide.go, without I/O.
package orphans
