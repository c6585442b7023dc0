// Package view is what a syncer knows: the objects that the control plane shows to its
// target, what carries the label of the control plane on the physical cluster, the Copies
// and the Orphans, each found by what others ask for; and what the syncer itself wrote
// and the watches have not brought back yet (controller.Written).
//
// It decides nothing and writes nothing. What it says is the newest that is known, which
// may be old: that something is absent is no reason to delete anything.
//
// The kinds that it shows come and go while it runs, each with its watches; see Follow.
//
// Invariant: a reader never sees less than what the syncer wrote itself.
//
// What it remembers: as much as the watches hold, and each own write until a watch has
// brought it back or it is too old to be believed. A View ends when one of the two servers
// goes back in time, and everything with it.
//
// Read next: View, Lookups in lookup.go, written.go.
package view
