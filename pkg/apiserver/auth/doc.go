// Package auth decides who a request comes from and what it may do, for each
// logical cluster by itself.
//
// Client certificates of the control plane's authority name a user of the whole
// control plane. Those of the tenants' authority and service account tokens are
// valid in their own logical cluster only: a URI with its UID names it, or the
// issuer. That of a syncer is good for the PhysicalCluster that it was signed for, by UID.
// RBAC is upstream's authorizer over the roles and bindings of the request's
// logical cluster, with the bootstrap roles kept in memory once for all.
//
// Invariant: no cache keyed without the logical cluster stands before an
// authenticator or an authorizer here (upstream's token cache is left out: it is
// keyed by the token alone and calls on with a context that lost the cluster).
//
// I/O: the informers of rbac.go and the live reads of tokens.go go through the
// loopback client.
package auth
