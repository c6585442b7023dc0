// Package syncerguard says what the syncer of one physical cluster may write:
// the Copies of that cluster, the objects that it mirrors from there, the Orphans that
// it finds there, the status of its own PhysicalCluster and its own Lease. Roles cannot
// say this, since it depends on the object.
//
// Invariants: what a syncer may write concerns its own physical cluster only; which
// cluster that is, it cannot confirm for itself.
//
// Pure.
package syncerguard
