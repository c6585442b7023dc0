// Package declared makes kinds of the catalog of what admins declare: PlacedKinds, for
// custom resources of which objects are placed on physical clusters.
//
// Invariant: the same declarations make the same catalog, in every server and every
// syncer, whatever the order in which they were heard of. What contradicts itself or
// another kind is left out, and said of the declaration; it takes nothing else along.
//
// It does no I/O. Read next: Catalog, Problem, and docs/decisions/0051.
package declared
