// Package down keeps the copies of one physical cluster: for each object that the
// control plane places there it reads what is known, asks syncer.Plan and does what that
// says, until there is nothing to do.
//
// Invariant: a physical cluster or a control plane that does not answer leaves
// everything as it is. Only an answer changes the record of a copy, and before anything
// is deleted the server has been asked for it by UID.
//
// What it remembers of an object (memory.go): what the last apply left, so that drift is
// distinguished from change; what was reverted; when its Copy was written. It forgets an object
// that has neither a place nor a Copy here any more, and everything with the session. To
// lose it costs a request.
//
// Read next: Reconciler.Reconcile, pass.act.
package down
