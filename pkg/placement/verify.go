package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict says whether a decision in force meets the policies of now.
type Verdict struct {
	Satisfied bool
	// Reason is a CamelCase word, Message the sentence for people.
	Reason, Message string
	// Until is when to verify again without an event, as a time ends then; zero: never.
	Until time.Time
}

// Verify reports whether where a unit is (u.Decided) is what the policies permit. It
// asks Decide whether a choice from just these would be all of them, so that it can
// say no other thing.
func Verify(s Snapshot, u Unit) Verdict {
	r := compile(s, u)
	var standing []PhysicalCluster
	known := map[string]bool{}
	for _, c := range s.PhysicalClusters {
		if slices.Contains(u.Decided, c.Name) {
			standing, known[c.Name] = append(standing, c), true
		}
	}
	d := r.decide(standing)
	decided := sorted(slices.Clone(u.Decided))
	switch {
	case len(known) < len(decided):
		gone := slices.DeleteFunc(slices.Clone(decided), func(name string) bool { return known[name] })
		return Verdict{Reason: "PhysicalClusterGone", Message: fmt.Sprintf("it is placed on %s, and no such physical cluster is registered", strings.Join(gone, ", "))}
	case slices.Equal(d.PhysicalClusters, decided):
		v := Verdict{Satisfied: true, Reason: "Satisfied", Message: "it is where the policies want it", Until: d.Until}
		if r.stay.message != "" {
			v.Message += ", for now: " + r.stay.message
		}
		return v
	}
	v := Verdict{Reason: ReasonTooFew, Message: d.Wanted + " is wanted"}
	if d.Excess != "" {
		v = Verdict{Reason: ReasonTooMany, Message: d.Excess}
	} else if len(d.Rejected) > 0 {
		first := d.Rejected[0]
		for _, no := range d.Rejected {
			if !spareReasons[no.Reason] {
				first = no
				break
			}
		}
		v = Verdict{Reason: first.Reason, Message: first.PhysicalCluster + ": " + first.Message}
	}
	v.Message = fmt.Sprintf("it is placed on %s; %s", strings.Join(decided, ", "), v.Message)
	return v
}

// spareReasons are those of physical clusters that fit by themselves.
var spareReasons = map[string]bool{
	ReasonTooFew: true, ReasonTooMany: true, ReasonNotNeeded: true, ReasonLessFree: true, ReasonLessPreferred: true, ReasonLowerScore: true,
}
