// Package volume decides which volumes one physical cluster hands over to another one, and of which
// the data are copied, or restored from a snapshot. How they are copied is in content and tree, below.
//
// Invariant: what a physical cluster says of a volume is believed only within a backend that an
// admin has declared for both ends, and of a volume or snapshot that no other claim has. It does no I/O:
// callers give it what admins declared and what Copies record. Read next: Refusal, Hand.
package volume
