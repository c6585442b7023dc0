// Package limits bounds what a logical cluster uses of the server that it shares with
// others: spec.limits of its LogicalCluster (docs/decisions/0040).
//
// What is kept is counted from etcd: one watch of everything, after one walk. A server so
// counts what all servers over one etcd write, and counts anew after a restart. It
// remembers the size of each object by the hash of its key, so that an event that comes
// twice, or its own write that it knows of already, changes nothing.
//
// A write is decided (decide.go) when its bytes are known and before they are sent to
// etcd (storage.Gate): it costs no request to etcd. Watches are those of this server.
//
// What a syncer writes in root is counted in the same way, by its physical cluster
// (reports.go).
//
// Invariant: deletions are never refused, and updates that make nothing larger at most for
// some minutes.
//
// I/O: follow.go reads etcd, report.go writes the status of LogicalClusters.
package limits
