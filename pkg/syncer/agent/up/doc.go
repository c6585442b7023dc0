// Package up mirrors what controllers of the physical cluster made: for each object below
// it reads what is known, asks syncer.Observe and does what that says. What users do to a
// mirror is carried out below; events are translated and written anew.
//
// Invariant: nothing below is deleted or changed but by UID, and on the word of the
// control plane; no mirror goes because a watch lacks what it mirrors: the physical
// cluster is asked, and who answers is confirmed.
//
// It remembers nothing but its own writes, which the view has.
//
// Read next: Reconciler.Reconcile, act.go.
package up
