// Package division divides the replicas of an object over its physical clusters.
//
// Invariants, each with a property: the sum of the shares is the wish, whatever minimums
// and maximums say; asked again about its own answer it changes nothing; by weights each
// share is the exact one rounded up or down, and of all such answers it is the one that
// changes the fewest replicas.
//
// Pure, and of numbers only: what the shares do to objects is in pkg/stamp.
package division
