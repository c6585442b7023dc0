package skew

import "fmt"

// Side is what one of the two says of itself.
type Side struct {
	// Build is its version, such as v0.3.1; empty if it says none.
	Build string
	// Revision is that of the contract which it speaks, Oldest the oldest that it works with.
	Revision, Oldest int32
}

// String names a side in sentences.
func (s Side) String() string {
	if s.Build == "" {
		return fmt.Sprintf("a build that does not say its version (revision %d)", s.Revision)
	}
	return fmt.Sprintf("%s (revision %d)", s.Build, s.Revision)
}

// Verdict says whether a syncer and a server work together.
type Verdict string

const (
	Compatible   Verdict = "Compatible"
	SyncerTooOld Verdict = "SyncerTooOld"
	ServerTooOld Verdict = "ServerTooOld"
	// Unreadable: what one says of itself makes no sense.
	Unreadable Verdict = "Unreadable"
)

// Between decides, and says in a sentence with both versions what to upgrade.
//
//	the server works with the syncer  the syncer works with the server  then
//	yes                               yes                               Compatible
//	no                                any                               SyncerTooOld
//	yes                               no                                ServerTooOld
//
// A newer one is accepted here: whether it works with what is older is known to it alone, and it
// has said so.
func Between(syncer, server Side) (Verdict, string) {
	switch {
	case syncer.Revision < server.Oldest:
		message := fmt.Sprintf("the syncer is too old for the server: it is %s, and the server, %s, works with syncers of revision %d or later. "+
			"Upgrade the syncer to the version of the server", syncer, server, server.Oldest)
		if syncer.Build == "" {
			message += ", or see to it that no proxy between the two takes the header " + SyncerHeader + " off"
		}
		return SyncerTooOld, message + ". " + untilThen
	case server.Revision < syncer.Oldest:
		return ServerTooOld, fmt.Sprintf("the server is too old for the syncer: it is %s, and the syncer, %s, works with servers of revision %d or later. "+
			"Upgrade all servers, or run the syncer of their version. %s", server, syncer, syncer.Oldest, untilThen)
	}
	return Compatible, ""
}

const untilThen = "Until then what runs on the physical cluster stays as it is, and nothing new is written there or acknowledged"
