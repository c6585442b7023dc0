package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Verdict says whether a decision in force meets the policies of now.
type Verdict struct {
	Satisfied bool
	// Reason is a CamelCase word, Message the sentence for people.
	Reason, Message string
	// Move says how policies let the unit be moved.
	Move placementv1alpha1.MoveRules
	// Scheduler is who decides, if that is another one.
	Scheduler string
	// Policies are those that were heard, in the order of precedence.
	Policies []placementv1alpha1.PolicyReference
	// Division is how the policies divide replicas over where it is, if it is satisfied.
	Division *placementv1alpha1.DecidedDivision
	// Overrides are what they change of the copies there, if it is satisfied.
	Overrides []placementv1alpha1.DecidedOverride
	// Rollout has the waves in which changes reach these, if it is satisfied.
	Rollout *placementv1alpha1.DecidedRollout
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
	v, decided := Verdict{Scheduler: d.Scheduler, Move: d.Move, Policies: d.Policies}, sorted(slices.Clone(u.Decided))
	switch {
	case r.foreign() && !slices.Equal(r.wanted(), decided):
		v.Reason, v.Message = ReasonBound, fmt.Sprintf("it is placed on %s; scheduler %s has bound it to %s", strings.Join(decided, ", "), r.scheduler, strings.Join(r.wanted(), ", "))
		return v
	case len(known) < len(decided):
		gone := slices.DeleteFunc(slices.Clone(decided), func(name string) bool { return known[name] })
		v.Reason, v.Message = "PhysicalClusterGone", fmt.Sprintf("it is placed on %s, and no such physical cluster is registered", strings.Join(gone, ", "))
		return v
	case r.shape.count == everywhere && slices.Equal(d.PhysicalClusters, decided) && len(r.more(s)) > 0:
		v.Reason, v.Message = ReasonMore, fmt.Sprintf("it is placed on %s; it is wanted on every physical cluster, and fits on %s, too", strings.Join(decided, ", "), strings.Join(r.more(s), ", "))
		return v
	case slices.Equal(d.PhysicalClusters, decided):
		v.Satisfied, v.Reason, v.Message, v.Until = true, "Satisfied", "it is where the policies want it", d.Until
		v.Division, v.Overrides, v.Rollout = d.Division, d.Overrides, d.Rollout
		if r.stay.message != "" {
			v.Message += ", for now: " + r.stay.message
		}
		return v
	}
	v.Reason, v.Message = ReasonTooFew, d.Wanted+" is wanted"
	if d.Excess != "" {
		v.Reason, v.Message = ReasonTooMany, d.Excess
	} else if len(d.Rejected) > 0 {
		first := d.Rejected[0]
		for _, no := range d.Rejected {
			if !spareReasons[no.Reason] {
				first = no
				break
			}
		}
		v.Reason, v.Message = first.Reason, first.PhysicalCluster+": "+first.Message()
	}
	v.Message = fmt.Sprintf("it is placed on %s; %s", strings.Join(decided, ", "), v.Message)
	return v
}

// ReasonMore: a unit that is wanted everywhere fits on more physical clusters.
const ReasonMore = "MorePhysicalClusters"

// more are the physical clusters that a unit would be on besides.
func (r *rules) more(s Snapshot) []string {
	return slices.DeleteFunc(r.decide(s.PhysicalClusters).PhysicalClusters, func(name string) bool { return slices.Contains(r.unit.Decided, name) })
}

// spareReasons are those of physical clusters that fit by themselves.
var spareReasons = map[string]bool{
	ReasonTooFew: true, ReasonTooMany: true, ReasonNotNeeded: true, ReasonLessFree: true, ReasonLessPreferred: true, ReasonLowerScore: true,
}
