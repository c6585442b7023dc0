// Package skew says which versions of a syncer and of a server work together, and what is to be
// upgraded if two do not.
//
// What the two agree on is the contract: the views of targets, Copies, the words of a status, the
// tunnel. Its revision is a number. A build speaks one and works with all from an oldest one on:
//
//	syncer: every request in its view has  Atoll-Syncer: revision=2, oldest=1, build=v0.1.0
//	server: every answer there has         Atoll-Server: revision=2, oldest=1, build=v0.1.0
//
// Both ends decide by the same function of the same two, so they never disagree.
//
// Invariant: what one says of itself is a claim. It can only have work refused to who says it; no
// right and no placement follows from it.
//
// When a change of the contract makes work that a syncer or a server of before would get wrong,
// raise the revision; raise the oldest one only when a released build of each side has spoken the
// new one for a whole release.
//
// Pure. Read next: Between, docs/decisions/0072-version-handshake.md. The shells are
// connection.Handshake of the syncer and pkg/apiserver/versions.go.
package skew
