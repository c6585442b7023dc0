// Package garbagecollector deletes what has lost its owners, in all logical
// clusters, as the garbage collector of Kubernetes does: owner references,
// background, foreground and orphan deletion have their stock meaning.
//
// There is no graph. The metadata informers are the graph: they find an object
// by its UID and the dependents of an owner by the owner's UID, always within
// one logical cluster, so that an owner in another one is as absent as one that
// never was. What the informers say only decides what is looked at; whether an
// owner exists is asked of the server, and every write carries the UID of what
// it is about.
//
// An owner whose kind is not served is unknown, not absent: its dependents
// stay.
//
// decide.go is pure: it holds the truth table. events.go says what a change
// makes worth looking at, owners.go finds out about owners, controller.go reads,
// decides and acts (actions.go).
package garbagecollector
