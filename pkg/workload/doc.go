// Package workload knows the kinds that run on physical clusters, and what is
// particular about each: its role in a placement, where its pod templates and replica
// counts are, how its status follows from those of its copies, whether it is made
// again or updated. A Catalog is such a set of kinds. It is passed to admission,
// placement, the controllers and the syncer; there is no package variable to ask.
//
// Invariant: a Catalog does not change. Another one comes from a Source; who decides
// takes it once and decides with that.
//
// Pure: no I/O. Objects are the unstructured maps of apimachinery.
//
// Read next: Kind, then Builtin, then docs/decisions/0029-a-catalog-of-kinds.md.
package workload
