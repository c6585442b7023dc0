// Package volume decides which volumes one physical cluster hands over to another one, and of which
// the data are copied. How they are copied is in content and tree, below.
//
// Invariant: what a physical cluster says of a volume is believed only within a backend that an
// admin has declared for both ends, and of a volume that no other claim has. It does no I/O:
// callers give it what admins declared and what Copies record. Read next: Refusal, Hand.
package volume
