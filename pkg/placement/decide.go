package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Decide chooses the physical clusters of a unit.
//
// What the unit has and may keep stays, as long as the count allows it; the
// rest is filled up from those that may receive, the best score first. If fewer
// than the count fit, nothing is chosen: half a placement would look like a
// whole one.
func Decide(s Snapshot, u Unit) Decision {
	rules := compile(s.Policies, u)
	d := Decision{Count: rules.count, Policies: rules.heard, Refuse: rules.refuse, Pin: u.Pin}
	if u.Pin != "" {
		d.Count = 1
	}

	var kept, fit []candidate
	for _, c := range s.PhysicalClusters {
		if c.Name == u.Pin {
			d.PinKnown = true
		}
		// Deciding again never takes away for a reason that only forbids to receive.
		predicate := rules.mayReceive
		decided := slices.Contains(u.Decided, c.Name)
		if decided {
			predicate = rules.mayKeep
		}
		if r := predicate(c); r != nil {
			d.Rejected = append(d.Rejected, Rejection{PhysicalCluster: c.Name, Reason: r.reason, Message: r.message})
		} else if decided {
			kept = append(kept, rules.candidate(c))
		} else {
			fit = append(fit, rules.candidate(c))
		}
	}
	slices.SortFunc(kept, better)
	slices.SortFunc(fit, better)
	ranked := slices.Concat(kept, fit)

	chosen := ranked[:0]
	if len(ranked) >= d.Count {
		chosen = ranked[:d.Count]
	}
	for _, c := range chosen {
		d.PhysicalClusters = append(d.PhysicalClusters, c.name)
	}
	for _, c := range ranked[len(chosen):] {
		d.Rejected = append(d.Rejected, c.spare(chosen, len(ranked), d.Count))
	}
	slices.Sort(d.PhysicalClusters)
	slices.SortFunc(d.Rejected, func(a, b Rejection) int { return cmp.Compare(a.PhysicalCluster, b.PhysicalCluster) })
	return d
}

// spare says why a physical cluster that fits was not chosen.
func (c candidate) spare(chosen []candidate, fit, count int) Rejection {
	r := Rejection{PhysicalCluster: c.name}
	if len(chosen) == 0 {
		r.Reason = ReasonTooFew
		r.Message = fmt.Sprintf("fits, but %d are wanted and only %d fit", count, fit)
		return r
	}
	last := chosen[len(chosen)-1]
	if c.free < last.free {
		r.Reason = ReasonLessFree
		r.Message = fmt.Sprintf("fits, but has less free (%d %%) than %s (%d %%)", c.free, last.name, last.free)
		return r
	}
	names := make([]string, 0, len(chosen))
	for _, other := range chosen {
		names = append(names, other.name)
	}
	r.Reason = ReasonNotNeeded
	r.Message = "fits, but is not needed beside " + strings.Join(names, ", ")
	return r
}
