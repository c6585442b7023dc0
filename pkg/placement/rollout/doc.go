// Package rollout says how a change that is under way goes on from one wave of physical
// clusters to the next.
//
// Which targets of an object have a change is said by the object itself, see pkg/stamp:
// admission takes it from all but the first wave in the write that makes it. Next says,
// for all objects of a unit and what is known of their copies, which targets get it now, or
// what is waited for.
//
// Invariants: a target gets a change only if all targets of the waves before have it and
// work, for as long as these have to soak, or a person has approved the wave. What is not
// known is not healthy. It ends, or says why it waits.
//
// Pure. Read next: Next, and docs/decisions/0060-staged-rollout.md.
package rollout
