package syncer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestWhoAPhysicalClusterIsDecidesWhetherItIsWorkedWith(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	earlier := metav1.NewTime(now.Add(-time.Hour))
	type id = fleetv1alpha1.PhysicalClusterIdentity
	accepted := id{UID: "a", Accepted: "a"}
	populated := id{UID: "a", Accepted: "a", Populated: true}
	emptied := id{UID: "a", Accepted: "a", Populated: true, Emptied: &earlier}
	for _, c := range []struct {
		name    string
		contact Contact
		verdict Verdict
		record  id
		// message has these words.
		message []string
	}{
		{"nobody answers, at first", Contact{}, Silent, id{}, nil},
		{"nobody answers, later", Contact{Recorded: populated, Expected: 3}, Silent, populated, nil},
		{"nobody answers, and another is confirmed", Contact{Recorded: populated, Confirmed: "b"}, Silent, populated, nil},

		{"the first contact", Contact{Seen: "a"}, Identifying, id{UID: "a"}, []string{"recorded"}},
		{"the first contact is what the admin wrote", Contact{Seen: "a", Confirmed: "a"}, Identifying, id{UID: "a"}, []string{"recorded"}},
		{"the first contact is not what the admin wrote", Contact{Seen: "a", Confirmed: "b"}, OtherCluster, id{}, []string{"UID a", "b is confirmed in spec.identity", "set spec.identity to a"}},
		{"recorded, not accepted", Contact{Seen: "a", Recorded: id{UID: "a"}}, Identifying, id{UID: "a"}, []string{"accepted"}},
		{"what was accepted was another", Contact{Seen: "a", Recorded: id{UID: "a", Accepted: "b"}}, Identifying, id{UID: "a", Accepted: "b"}, []string{"accepted"}},
		{"recorded and accepted", Contact{Seen: "a", Recorded: accepted}, Meant, accepted, nil},
		{"the same as another", Contact{Seen: "a", Recorded: id{UID: "a", SameAs: "west"}}, SameCluster, id{UID: "a", SameAs: "west"}, []string{"west", "UID a", "Delete one"}},
		{"the same as another wins over accepted", Contact{Seen: "a", Recorded: id{UID: "a", Accepted: "a", SameAs: "west"}}, SameCluster, id{UID: "a", Accepted: "a", SameAs: "west"}, []string{"west"}},

		{"another answers", Contact{Seen: "b", Recorded: populated}, OtherCluster, populated, []string{"UID b", "a was recorded", "set spec.identity to b"}},
		{"another answers, empty", Contact{Seen: "b", Recorded: populated, Namespaces: PresenceNone, Expected: 3}, OtherCluster, populated, []string{"UID b"}},
		{"another answers, before the first was accepted", Contact{Seen: "b", Recorded: id{UID: "a"}}, OtherCluster, id{UID: "a"}, []string{"UID b"}},
		{"another answers, and a third is confirmed", Contact{Seen: "b", Recorded: populated, Confirmed: "c"}, OtherCluster, populated, []string{"UID b", "c is confirmed", "set spec.identity to b"}},
		{"another answers, and the recorded one is confirmed", Contact{Seen: "b", Recorded: populated, Confirmed: "a"}, OtherCluster, populated, []string{"a is confirmed"}},
		{"the recorded one answers, but another is confirmed", Contact{Seen: "a", Recorded: populated, Confirmed: "b"}, OtherCluster, populated, []string{"UID a", "b is confirmed"}},
		{"another answers that is confirmed", Contact{Seen: "b", Recorded: emptied, Confirmed: "b"}, Identifying, id{UID: "b"}, []string{"recorded"}},
		{"and has been recorded", Contact{Seen: "b", Recorded: id{UID: "b", Accepted: "b"}, Confirmed: "b", Namespaces: PresenceNone, Expected: 3}, Meant, id{UID: "b", Accepted: "b"}, nil},

		{"it has namespaces now", Contact{Seen: "a", Recorded: accepted, Namespaces: PresenceSome, Expected: 1}, Meant, populated, nil},
		{"it has none, and should not", Contact{Seen: "a", Recorded: populated, Namespaces: PresenceNone}, Meant, populated, nil},
		{"it has none yet", Contact{Seen: "a", Recorded: accepted, Namespaces: PresenceNone, Expected: 3}, Meant, accepted, nil},
		{"whether it has any is not known", Contact{Seen: "a", Recorded: populated, Expected: 3}, Meant, populated, nil},
		{"it has none any more", Contact{Seen: "a", Recorded: populated, Namespaces: PresenceNone, Expected: 1}, Emptied,
			id{UID: "a", Accepted: "a", Populated: true, Emptied: &now}, []string{"UID a", "set spec.emptied to 2026-11-22T12:00:00Z"}},
		{"a confirmation of another time", Contact{Seen: "a", Recorded: populated, Namespaces: PresenceNone, Expected: 1, ConfirmedEmptied: &earlier}, Emptied,
			id{UID: "a", Accepted: "a", Populated: true, Emptied: &now}, []string{"12:00:00Z"}},
		{"the identity alone does not confirm it", Contact{Seen: "a", Recorded: emptied, Confirmed: "a", Namespaces: PresenceNone, Expected: 1}, Emptied, emptied, []string{"11:00:00Z"}},
		{"unconfirmed", Contact{Seen: "a", Recorded: emptied, Expected: 3}, Emptied, emptied, []string{"11:00:00Z"}},
		{"unconfirmed, and nothing is expected any more", Contact{Seen: "a", Recorded: emptied, Namespaces: PresenceNone}, Emptied, emptied, []string{"11:00:00Z"}},
		{"confirmed", Contact{Seen: "a", Recorded: emptied, Namespaces: PresenceNone, Expected: 3, ConfirmedEmptied: &earlier}, Meant, accepted, nil},
		{"confirmed, and still empty", Contact{Seen: "a", Recorded: accepted, Namespaces: PresenceNone, Expected: 3, ConfirmedEmptied: &earlier}, Meant, accepted, nil},
		{"restored", Contact{Seen: "a", Recorded: emptied, Namespaces: PresenceSome, Expected: 3}, Meant, populated, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.contact.Now = now
			got := Identify(c.contact)
			if diff := cmp.Diff(Identification{Verdict: c.verdict, Record: c.record, Message: got.Message}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if (got.Message == "") != (len(c.message) == 0) {
				t.Errorf("the message is %q", got.Message)
			}
			for _, words := range c.message {
				if !strings.Contains(got.Message, words) {
					t.Errorf("%q is not in %q", words, got.Message)
				}
			}
		})
	}
}

// Whatever is recorded, a cluster is worked with only if it is the one that the
// admin wrote, or the one that came first; and the record never changes without.
func TestNoClusterIsWorkedWithUnlessItIsMeant(t *testing.T) {
	uids := []types.UID{"", "a", "b", "c"}
	at := metav1.NewTime(time.Unix(1, 0))
	for _, recorded := range uids {
		for _, confirmed := range uids {
			for _, seen := range uids {
				for _, accepted := range uids {
					for _, sameAs := range []string{"", "west"} {
						for _, emptied := range []*metav1.Time{nil, &at} {
							c := Contact{
								Recorded:  fleetv1alpha1.PhysicalClusterIdentity{UID: recorded, Accepted: accepted, SameAs: sameAs, Emptied: emptied, Populated: true},
								Confirmed: confirmed, Seen: seen, Namespaces: PresenceNone, Expected: 1, Now: at,
							}
							got := Identify(c)
							if got.Verdict == Meant {
								t.Errorf("an emptied cluster is worked with: %+v", c)
							}
							c.Namespaces = PresenceSome
							got = Identify(c)
							if got.Verdict == Meant && (seen == "" || recorded != seen || accepted != seen || sameAs != "" || confirmed != "" && confirmed != seen) {
								t.Errorf("worked with: %+v", c)
							}
							if got.Record.UID != recorded && (got.Record.UID != seen || recorded != "" && confirmed != seen) {
								t.Errorf("recorded without a confirmation: %+v", c)
							}
						}
					}
				}
			}
		}
	}
}
