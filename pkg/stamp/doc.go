// Package stamp is the only producer of what the system says about placement on
// objects: the targets annotation, the finalizer that waits for the copies, and the
// name of the physical namespace on Namespaces. It is also the only one that reads
// the targets annotation.
//
// Targets says, for the placement of a unit, the role of a kind and an object, which
// targets the object should have; its tables are in targets.go. Whoever writes
// targets (admission, the controllers of placements, references and copies) asks it
// and writes the difference: in admission with Set, as a request with Patch. The
// answer is idempotent: asked again about what was stamped, it changes nothing. So a
// new decision reaches an object by any write of it, if only an empty patch.
//
// Invariants: targets and finalizer go together: an object with a target that keeps
// a copy has the finalizer. A target that nobody mentions stays as it is: absence is
// never a removal. A removal that has begun is never taken back.
//
// Pure. Read next: Targets, Next.
package stamp
