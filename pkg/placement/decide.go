package placement

import (
	"cmp"
	"slices"
)

// Decide chooses the physical clusters of a unit.
//
// What the unit has and may keep stays, as long as the shape that is wanted allows it;
// the rest is filled up from those that may receive, the best first. If the shape
// cannot be had, nothing is chosen: half a placement would look like a whole one.
//
// If another scheduler decides, it is what that one has bound, or nothing: see follow.
func Decide(s Snapshot, u Unit) Decision { return compile(s, u).decide(s.PhysicalClusters) }

// decide chooses from some of the physical clusters of the snapshot.
func (r *rules) decide(from []PhysicalCluster) Decision {
	if r.unit.Pin != "" {
		r.shape = shape{count: 1, least: 1}
	}
	d := Decision{Wanted: r.shape.String(), Policies: r.heard, Refuse: r.refuse, Move: r.move, Pin: r.unit.Pin}
	d.PinKnown = slices.ContainsFunc(from, func(c PhysicalCluster) bool { return c.Name == d.Pin })
	if r.foreign() {
		return r.on(r.follow(from, d), from)
	}

	candidates, rejected := r.filter(from)
	d.Until = r.stay.until
	chosen := r.shape.choose(candidates)
	if r.most > 0 && len(chosen) > r.most {
		d.Excess = r.excess(len(chosen))
		chosen = nil
	}
	for _, c := range chosen {
		d.PhysicalClusters = append(d.PhysicalClusters, c.name)
	}
	slices.Sort(d.PhysicalClusters)
	d = r.on(d, from)
	for _, c := range candidates {
		if !slices.Contains(d.PhysicalClusters, c.name) {
			rejected[c.at] = r.spare(c, chosen, d)
		}
	}
	d.Rejected = given(rejected)
	return d
}

// given are the rejections that there are, by name.
func given(rejected []Rejection) []Rejection {
	byName := func(a, b Rejection) int { return cmp.Compare(a.PhysicalCluster, b.PhysicalCluster) }
	rejected = slices.DeleteFunc(rejected, func(r Rejection) bool { return r.PhysicalCluster == "" })
	if !slices.IsSortedFunc(rejected, byName) { // lists of physical clusters are
		slices.SortFunc(rejected, byName)
	}
	return rejected
}

// on adds to a decision what holds on the chosen.
func (r *rules) on(d Decision, from []PhysicalCluster) Decision {
	d.Division, d.Overrides = r.replicas.over(d.PhysicalClusters, from), r.overridesOn(d.PhysicalClusters, from)
	d.Rollout = r.waves.over(d.PhysicalClusters, from)
	if d.Requests = r.whole; d.Division != nil {
		d.Requests = ofShare(r.whole, len(d.PhysicalClusters))
	}
	return d
}

// filter are the physical clusters that fit, in no order, and why the others do
// not, each at its place in from. Deciding again never takes away for a reason that only forbids to receive.
func (r *rules) filter(from []PhysicalCluster) (candidates []*candidate, rejected []Rejection) {
	fit, mayReceive := make([]PhysicalCluster, 0, len(from)), r.mayReceive()
	candidates, rejected = make([]*candidate, 0, len(from)), make([]Rejection, len(from))
	all := make([]candidate, len(from)) // one piece of memory for all that fit
	for i, c := range from {
		decided := slices.Contains(r.unit.Decided, c.Name)
		fits := mayReceive
		if decided {
			fits = r.mayKeep
		}
		if no := fits(c); no != nil {
			no.PhysicalCluster = c.Name
			rejected[i] = *no
			continue
		}
		next := &all[i]
		*next = r.candidate(c, decided)
		next.at = i
		fit, candidates = append(fit, c), append(candidates, next)
	}
	r.order.weigh(fit, candidates)
	return candidates, rejected
}

// spare says why a physical cluster that fits was not chosen.
func (r *rules) spare(c *candidate, chosen []*candidate, d Decision) Rejection {
	no := func(reason, format string, args ...any) Rejection {
		return NewRejection(c.name, reason, format, args...)
	}
	if label := r.shape.missing(c); label != "" {
		return no(ReasonNoTopologyLabel, "it has no label %s", label)
	}
	switch {
	case d.Excess != "":
		return no(ReasonTooMany, "fits, but %s", d.Excess)
	case len(chosen) == 0:
		return no(ReasonTooFew, "fits, but too few do for %s", d.Wanted)
	}
	last := chosen[len(chosen)-1]
	switch {
	case c.preference > last.preference:
		return no(ReasonLessPreferred, "fits, but %s is preferred", last.name)
	case c.preference == last.preference && c.score < last.score:
		return no(ReasonLowerScore, "fits, but its score (%d) is lower than that of %s (%d)", c.score, last.name, last.score)
	case c.preference == last.preference && c.score == last.score && c.free < last.free:
		return no(ReasonLessFree, "fits, but has less free (%d %%) than %s (%d %%)", c.free, last.name, last.free)
	}
	return no(ReasonNotNeeded, "fits, but is not needed beside %s", nameList(d.PhysicalClusters))
}
