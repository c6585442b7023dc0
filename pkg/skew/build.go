package skew

import "fmt"

// Unsaid is the revision of a build that says none: those from before there was a handshake.
const Unsaid = 1

// The revisions of the contract:
//
//	1  all builds from before there was a handshake
//	2  the handshake
//
// They are strings so that a build can be given others: go build -ldflags "-X ...". A release sets
// the version; tests make a syncer of another revision.
var (
	version  = "v0.1.0-dev"
	revision = "2"
	oldest   = "1"
)

// Version is that of this build of Atoll.
func Version() string { return version }

// Current is what this build says of itself.
func Current() Side {
	said := Side{Build: version}
	if _, err := fmt.Sscan(revision+" "+oldest, &said.Revision, &said.Oldest); err != nil || said.validate() != nil {
		panic(fmt.Sprintf("this build has no usable version: %q, revision %q, oldest %q", version, revision, oldest))
	}
	return said
}
