// Package orphans lists what is on the physical cluster and belongs to nothing in the
// control plane, and carries out what an admin orders for it, as syncer.PlanOrphan says
// (decision 0022).
//
// Invariant: nothing is deleted here but by UID, by the order of an admin, and on the
// word of the server about this very order.
//
// What it remembers: of which objects the list has no room for what is below, until it
// has or they are settled; that is a number in the status of the PhysicalCluster.
//
// Read next: Reconciler.Reconcile, Reconciler.Found.
package orphans
