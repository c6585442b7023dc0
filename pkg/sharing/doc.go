// Package sharing interns the labels and annotations of objects: of equal maps it keeps one
// in memory, where there would be many.
//
// Logical clusters are alike: each has a Namespace called default with the label
// kubernetes.io/metadata.name=default, and every object of one carries the same
// annotation. A map of one entry takes 300 bytes; for what a logical cluster has
// when it is made, labels and annotations were a quarter of what it costs.
//
// Invariant: a map that was given to Maps is never changed again by anybody. That
// holds for what watch caches and informers keep, which is shared by all readers
// anyway; Check finds out who breaks it.
package sharing
