// Package controller keeps placements current after admission: it is the shell of
// pkg/placement outside of requests.
//
// It decides nothing itself. A namespace that is undecided has pending objects;
// when physical clusters, policies or the namespace change, and from time to
// time, the controller sends one of them through admission with an empty patch:
// admission, which every write passes, decides anew and stamps it. Once a namespace
// is decided the controller sends all objects whose targets are not those that the
// decision wants (pkg/stamp) the same way, the Namespace and what rules it too, and
// keeps the Placement's status true to the Copies. Events on the objects of users say
// what waits and why.
//
// A decision that is not what is wanted any more is followed by another, with the
// transition that leads there; pkg/placement/transition says when each phase of it ends.
//
// Level-triggered: one reconcile of a namespace does whatever is left to do,
// whichever event it came from.
//
// Invariant: nothing is taken from an object but by a transition, upon what was read from
// the database.
package controller
