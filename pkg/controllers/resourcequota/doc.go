// Package resourcequota keeps the status of ResourceQuotas: what is used in the
// namespace, counted anew.
//
// Admission (pkg/admission/quota) charges a quota when it admits an object. This
// controller sets the limits and the first usage of a quota, and corrects the
// usage afterwards: for what is deleted, what was mirrored from physical clusters,
// and what was charged and then not stored. What objects use is upstream's
// (quota evaluators).
//
// Objects are followed through the metadata informers; those whose usage is more
// than their number (pods, services, claims) are listed from the watch cache when
// something changed. A namespace without quotas costs one look into an index for
// each event.
//
// Invariant: usage is written with the resource version of the quota that the
// count was made for, and not while objects that were just charged may not be
// stored yet (settleDelay): the count would miss them and the quota admit too much.
package resourcequota
