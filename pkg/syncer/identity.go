package syncer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Contact is what is known of who a physical cluster is, once it has been asked.
type Contact struct {
	// Recorded is the identity in the status of the PhysicalCluster.
	Recorded fleetv1alpha1.PhysicalClusterIdentity
	// Confirmed and ConfirmedEmptied are what the admin confirmed in its spec.
	Confirmed        types.UID
	ConfirmedEmptied *metav1.Time
	// Seen is the UID of kube-system now; empty if nobody answered.
	Seen types.UID
	// Namespaces says whether namespaces of ours are there.
	Namespaces Presence
	// Expected is how many Copies of Namespaces say that one should be.
	Expected int
	Now      metav1.Time
}

// Presence says whether something is there.
type Presence string

const (
	// PresenceUnknown: nobody has asked.
	PresenceUnknown Presence = ""
	PresenceNone    Presence = "None"
	PresenceSome    Presence = "Some"
)

// Verdict says what a physical cluster is to us.
type Verdict string

const (
	// Silent: nobody answered, which changes nothing.
	Silent Verdict = "Silent"
	// Identifying: who it is has to be recorded, and accepted by the server.
	Identifying Verdict = "Identifying"
	// Meant: it is the one that is meant.
	Meant Verdict = "Meant"
	// OtherCluster, SameCluster, Emptied: it is not, or is to be confirmed.
	OtherCluster Verdict = "OtherCluster"
	SameCluster  Verdict = "SameCluster"
	Emptied      Verdict = "Emptied"
)

// Identification is the outcome of Identify.
type Identification struct {
	Verdict Verdict
	// Record is the identity to be recorded. As long as that is not what is
	// recorded, the verdict does not hold.
	Record fleetv1alpha1.PhysicalClusterIdentity
	// Message is for people, and names the way out; empty if all is well.
	Message string
}

// Identify decides whether the cluster that answers is the one that is meant:
// the confirmed one, or else the recorded one, or else whichever comes first.
//
//	seen           recorded            namespaces  expected  emptied      then
//	nothing        any                 any         any       any          1 Silent
//	not the meant  any                 any         any       any          2 OtherCluster
//	the meant      not seen            any         any       any          3 Identifying: record it, without more
//	the meant      seen, same as       any         any       any          4 SameCluster
//	the meant      seen, not accepted  any         any       any          5 Identifying
//	the meant      seen, accepted      Some        any       any          6 Meant: populated, not emptied
//	the meant      seen, accepted      not Some    any       confirmed    7 Meant: not populated, not emptied
//	the meant      seen, accepted      not Some    any       unconfirmed  8 Emptied
//	the meant      seen, populated     None        some      no           9 Emptied: since now
//	the meant      seen, accepted      otherwise                          10 Meant
//
// Confirmations are used up: that of an identity once it is recorded, as only one
// that differs is ever compared with it, and that of an emptied cluster as it names
// when that was found.
func Identify(c Contact) Identification {
	out := Identification{Record: c.Recorded}
	meant := c.meant()
	switch {
	case c.Seen == "": // 1
		out.Verdict = Silent
	case c.Seen != meant: // 2
		out.Verdict, out.Message = OtherCluster, c.other(meant)
	case c.Recorded.UID != c.Seen: // 3
		out.Verdict, out.Record = Identifying, fleetv1alpha1.PhysicalClusterIdentity{UID: c.Seen}
		out.Message = "who the physical cluster is will be recorded"
	case c.Recorded.SameAs != "": // 4
		out.Verdict = SameCluster
		out.Message = fmt.Sprintf("this is the same cluster as physical cluster %s (the namespace kube-system of both has UID %s): "+
			"two for one would undo each other's work; nothing is synced. Delete one of the two, or correct the connection", c.Recorded.SameAs, c.Seen)
	case c.Recorded.Accepted != c.Seen: // 5
		out.Verdict, out.Message = Identifying, "the server has not accepted yet who the physical cluster is"
	default:
		return c.emptiness(out)
	}
	return out
}

// meant is the UID of the cluster that is meant.
func (c Contact) meant() types.UID {
	switch {
	case c.Confirmed != "":
		return c.Confirmed
	case c.Recorded.UID != "":
		return c.Recorded.UID
	}
	return c.Seen
}

// other says what to do about a cluster that is not the one that is meant.
func (c Contact) other(meant types.UID) string {
	by := "was recorded with the first contact"
	if c.Confirmed != "" {
		by = "is confirmed in spec.identity"
	}
	return fmt.Sprintf("another cluster answers: its namespace kube-system has UID %s, while %s %s. Nothing is written to it or believed of it. "+
		"Correct the connection; or, if it is to take the place of the other one, on which everything stays as it is, set spec.identity to %s",
		c.Seen, meant, by, c.Seen)
}

// emptiness: cells 6 to 10.
func (c Contact) emptiness(out Identification) Identification {
	out.Verdict = Meant
	emptied := c.Recorded.Emptied
	switch {
	case c.Namespaces == PresenceSome: // 6
		out.Record.Populated, out.Record.Emptied = true, nil
	case emptied != nil && c.ConfirmedEmptied != nil && c.ConfirmedEmptied.Unix() == emptied.Unix(): // 7
		out.Record.Populated, out.Record.Emptied = false, nil
	case emptied != nil: // 8
		out.Verdict, out.Message = Emptied, emptiedMessage(c.Seen, *emptied)
	case c.Recorded.Populated && c.Namespaces == PresenceNone && c.Expected > 0: // 9
		now := c.Now.Rfc3339Copy()
		out.Verdict, out.Record.Emptied, out.Message = Emptied, &now, emptiedMessage(c.Seen, now)
	}
	return out
}

func emptiedMessage(uid types.UID, at metav1.Time) string {
	return fmt.Sprintf("the cluster is the same (the namespace kube-system has UID %s), but none of the namespaces that were made on it is there any more, "+
		"as if its data had been lost, or restored from an older backup. Nothing is written to it or believed of it. "+
		"Restore it; or, to have everything made anew, set spec.emptied to %s", uid, at.UTC().Format("2006-01-02T15:04:05Z"))
}
