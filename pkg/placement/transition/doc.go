// Package transition is the one way in which a unit gets from the physical clusters that
// it has to others, whatever the cause: a pin, a policy, a drain.
//
// Begin makes the transition that is stored with a new decision; Next says, from what is
// there, which phase follows and what it waits for. What each object does in a phase is
// in pkg/stamp; syncers do the rest.
//
// Invariants: nothing is taken away before what replaces it is there and as available as
// what it replaces; no time passes for that. Each phase but Removing can be left again.
// What must not run twice is stopped first.
//
// Pure. Read next: Next.
package transition
