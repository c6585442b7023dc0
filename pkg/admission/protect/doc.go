// Package protect keeps the system's metadata on objects: users cannot forge
// or lose it. The system's keys among labels, annotations and finalizers are
// dropped from what is created and get the server's values back in what is
// updated, silently, so that replace, apply and every tool that overwrites
// metadata keep working; the managed fields of users do not claim them.
//
// Invariant: after Create or Update, the system's keys of an object do not
// depend on what the user sent.
//
// Pure.
package protect
