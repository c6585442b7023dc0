// Package election sees to it that of several syncers for one physical cluster one
// writes: the holder of the Lease of the physical cluster, whose renewals are the
// heartbeat, too.
//
// The fence is a transport, so that no code can forget it: writes pass while the Lease is
// held, and those that are under way end before anybody else may hold it. Reads go on
// without the Lease, so that caches outlast its loss.
//
// Invariant: at no time do two syncers write to, or for, one physical cluster.
//
// What it remembers: until when the Lease is held, and which term that is. A term that
// somebody else has begun ends everything.
//
// Read next: Election.Lead, fencedLock, Identity.
package election
