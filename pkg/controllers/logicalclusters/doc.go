// Package logicalclusters makes, keeps and removes what belongs to the LogicalClusters of
// "root".
//
// Birth: Bootstrap makes the first objects inside a new logical cluster. The
// server calls it before the creation of a LogicalCluster returns; the
// controller calls it again for one that was left half made. It is idempotent.
//
// Life: the subjects in spec.owners are bound to cluster-admin inside, and the
// namespaces of the system are made again where they are missing.
//
// Death: the finalizer holds the object until nothing is left in the logical
// cluster. Its namespaces go first, each emptied by the controller of
// namespaces, then everything else. What is left, and what holds it, is in the
// condition ContentRemoved. "root" never goes.
//
// Invariant: the finalizer is removed only when the informers know of no object
// in the logical cluster and a list of every resource, read after that, is
// empty too.
//
// status.go and content.go are pure; bootstrap.go, system.go, owners.go,
// terminate.go and controller.go do the I/O.
package logicalclusters
