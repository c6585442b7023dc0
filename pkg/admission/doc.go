// Package admission admits writes: NewChain has upstream's chain, made for many
// logical clusters, around the control plane's own steps. What is in the chain,
// for whom and why is in docs/admission.md; upstream's plugins are in the packages
// stock, limits, podsecurity and quota.
//
// The own steps keep namespaces' life cycle, guard the system's metadata and
// kinds, and place. Those that change the object are the last of the mutating
// chain. In this order:
//
//	lifecycle   the namespace exists and is not terminating; some names stay
//	guard       who may write Copies, Placements and what syncers mirror
//	protect     the system's keys come from the server, not from the request;
//	            the annotation of the logical cluster is set
//	place       an object of a placed kind gets its targets, and the first one
//	            of a namespace has the namespace decided
//	pin         the user's annotation on a Namespace names a physical cluster
//
// What can be decided without I/O is decided in pure packages below (protect,
// stamp, syncerguard) and in pkg/placement; here are the reads and writes.
//
// Invariant: once a namespace is decided, admitting a write in it does no I/O:
// the decision comes from an informer. Only where the informer has nothing does
// a live read follow, since it may lag behind.
//
// Read chain.go first, then plugin.go and placing.go.
package admission
