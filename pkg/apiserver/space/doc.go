// Package space stops writes before the disk of the embedded etcd, its database, or the
// table of file descriptors is full: an etcd that cannot write, or cannot open the next
// segment of its log, ends its process.
//
// They are looked at with each write, at most ten times a second. While there is
// too little room, the server is read-only: whoever writes gets 507 with the cause and
// the way out, whoever reads notices nothing, and deletions go on for as long as there
// is room for a segment of etcd's log. It recovers by itself when there is room again,
// with a distance between the two so that it does not change its mind with each write.
//
// Invariant: nothing that was acknowledged is lost for want of room, and nothing is
// acknowledged that is not stored. The decision (decide.go) is pure; guard.go has the
// handler. Metrics and the log say which level holds.
package space
