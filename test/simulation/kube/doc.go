// Package kube is a small model of a Kubernetes API server, as far as a syncer
// can tell it from a real one: names and UIDs, resource versions and conflicts,
// generations, finalizers and graceful deletion, terminating namespaces,
// server-side apply with managed fields (the real code), owner references, and
// watches that deliver the changes of one resource in order, late, or not at all.
//
// It is deterministic: no goroutines, no clock but Server.Now, no random numbers,
// lists in the order of their keys. What it hands out is shared and must not be
// changed.
//
// Read next: Server.
package kube
