// Package stamp writes what the system says about placement on objects: the
// targets annotation, the finalizer that waits for the copies, and the name of
// the physical namespace on Namespaces.
//
// Invariant: targets and finalizer go together: an object with a target that
// keeps a copy has the finalizer, an object that was brought up from below has
// not.
//
// Pure.
package stamp
