// Package reserve counts what units take of physical clusters, from the moment at which they
// are about to be decided until the physical clusters report it.
//
// A reservation is stored in the Placement of its unit (spec.reservation), so all servers over
// one etcd count alike. Each keeps a Ledger of what its informer has, and of what it is about to
// write itself. Where something bounds what may be placed, a unit is decided in three steps:
//
//  1. it is chosen on top of all that the ledger has, and its reservation is stored;
//  2. once the informer has that write, the ledger says what was reserved before it, and
//     placement.Exceeds whether there is still room;
//  3. if so, the decision is stored upon the reservation; else that is withdrawn, and the unit is
//     decided again.
//
// The invariant: what is decided fits beside all that was reserved before it. etcd orders
// writes, so of two that do not fit beside each other the later one knows the earlier one, whichever
// servers they went through; no lock and no leader is needed. A server that dies between two steps
// leaves a reservation, which ends by itself, and no decision.
//
// The Ledger sums beside it what units were let in with, for as long as they are decided: what an admin bounds
// is taken also if the physical cluster reports less, see placement.Counted.
//
// All of it is summed up as it comes and goes: what a decision costs does not grow with the units that there are,
// nor with those of the last minute.
//
// Nothing here does I/O or reads a clock. The shell is pkg/admission (assume.go, reserve.go).
package reserve
