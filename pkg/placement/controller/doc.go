// Package controller brings placements on after admission: it is the shell of
// pkg/placement outside of requests.
//
// It decides nothing itself. A namespace that is undecided has pending objects;
// when physical clusters, policies or the namespace change, and from time to
// time, the controller pokes one of them with an empty patch: admission, which
// every write passes, decides anew and stamps it. Once a namespace is decided
// the controller pokes all objects that are still without targets, completes
// the stamp of the Namespace after a crash, and keeps the Placement's status
// true to the Copies. It tells users by events what waits and why.
//
// Level-triggered: one reconcile of a namespace does whatever is left to do,
// whichever event it came from.
//
// Invariant: it never takes a target away.
package controller
