// Package placedkinds keeps the catalog of kinds of a server: those of Kubernetes, and those
// that PlacedKinds in "root" declare; and says of each declaration what became of it.
//
//	Catalog      the kinds, in a logical cluster and in all: in memory, from informers
//	Controller   the status of PlacedKinds, the end of those that are deleted, and objects
//	             that were there before their kind was placed: they go through admission
//
// Invariant: a declaration that is deleted ends only after the server, asked for all objects
// of the kind and all Copies of them, has shown that none has a target, our finalizer, or a
// Copy. Until then all go on handling them.
//
// Read next: Catalog.Places, Controller.reconcile, docs/decisions/0051.
package placedkinds
