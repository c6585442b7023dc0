// Package syncer decides what a syncer does: how an object of a logical cluster
// looks on a physical cluster (Transform), what to do next for one object on
// one target (Plan), how an object that controllers of the physical cluster made
// looks in the logical cluster (Observe), and what the status of an object is
// when its copies say this and that (Summarize).
//
// The package is pure: it takes what was read and returns actions as data. The
// shell that reads and acts is pkg/syncer/agent; the controllers of the server
// that use the same core are pkg/controllers/status and pkg/controllers/copies.
//
// Invariants, each with a test:
//
//   - Absence is never a delete. Plan returns Delete only for a UID that an
//     explicit instruction names: a deletion timestamp, a Removing entry in
//     the targets annotation, the server's own word that the UID is gone, or
//     another UID under the same name.
//   - Nothing is written to an object that does not carry our Mark with the
//     UID in question, unless its Copy has recorded its physical UID.
//   - The Copy is written before the first write below.
//   - What Transform returns for equal input is equal, and applying it twice
//     changes nothing.
//
// Read next: Plan with its truth table, then Transform.
package syncer
