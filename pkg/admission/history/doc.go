// Package history knows which pod templates an object has had: what a syncer mirrors as
// its history, and `kubectl rollout undo` brings back, must be one of those
// (docs/decisions/0041).
//
// Of each template a digest is kept, in an annotation of the system on the object whose
// template it is. Two templates are the same if they are after defaulting, without what
// controllers and the system add.
//
// Pure.
package history
