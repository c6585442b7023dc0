// Package limits applies the LimitRanges of a namespace: it gives pods default
// requests and limits, and refuses what is out of bounds.
//
// The rules are upstream's, called as they are (limitranger.LimitRangerActions);
// only the search for LimitRanges is new, since upstream's plugin remembers them
// by namespace without a logical cluster.
//
// Invariant: what is remembered is keyed by logical cluster and namespace.
//
// I/O: one list in a namespace that has no LimitRange according to the informer,
// at most once in noneTTL.
package limits
