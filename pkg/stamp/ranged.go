package stamp

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// ranged gives wanted targets of a StatefulSet ranges of its ordinals. An ordinal must never run
// twice, which is the opposite of what Deployments want: a range becomes smaller first, and what
// it lost is given to another target once nothing of it runs where it was.
//
//	a target of the division    of what it is to have        then
//	has a copy                  what it was given            it keeps
//	has a copy                  what it was given, and is    it gives up at once; that stays noted as held
//	                            not to have                  until its Copy says that it is gone, see Vacated
//	any                         what no other may run        it gets, if it follows on what it has
//	any                         what another may run         it waits for: share says how many there will be
//	waits, or has no copy yet   what leaves with another     it waits for
//
// What leaves, or is removed, keeps its range until it is gone: also what is lost, until it is
// given up. A division over one target ends with the target having all.
func ranged(rule *placementv1alpha1.DecidedDivision, wish *Wish, unit Unit, current, wanted placementv1alpha1.Targets) {
	keepRanges(current, wanted)
	if wish == nil || wish.Ordinals == nil {
		nothingNew(current, wanted) // also of objects of which only the metadata are known
		return
	}
	if rule == nil {
		if rule = onOne(unit, current, wanted); rule == nil {
			undivide(unit, wanted)
			return
		}
	}
	stay := staying(rule, wanted)
	if !divisibleByOrdinals(rule, *wish, current, stay) {
		return
	}
	goals := goalsOf(sharesOf(rule, *wish, current, wanted), *wish, current, stay)
	next := newest(current) + 1
	for _, name := range stay {
		wanted[name] = give(wanted[name], name, goals[name], next, *wish, current)
	}
	if len(stay) == 1 {
		wanted[stay[0]] = allOf(wanted[stay[0]], stay[0], current)
	}
}

// keepRanges leaves wanted targets what they have, also those that are removed.
func keepRanges(current, wanted placementv1alpha1.Targets) {
	for name, target := range wanted {
		if has, ok := current[name]; ok && !target.NoCopy() {
			target.Replicas, target.Share, target.Ordinals = has.Replicas, has.Share, has.Ordinals
			wanted[name] = target
		} else if ok && target.State == placementv1alpha1.TargetStateWaiting {
			target.Ordinals = has.Ordinals // its place among the others
			wanted[name] = target
		}
	}
}

// nothingNew has targets wait while it is not known what they are to have beside others.
func nothingNew(current, wanted placementv1alpha1.Targets) {
	for name, target := range wanted {
		if has, ok := current[name]; target.Keeps() && anyRange(current) && (!ok || has.NoCopy()) {
			target.State = placementv1alpha1.TargetStateWaiting
			wanted[name] = target
		}
	}
}

// onOne is the division over the one target that stays of a unit, if others still have ranges:
// it gets theirs as they go. It is nil if nothing is divided by ordinals, or several stay: then
// each shall have all.
func onOne(unit Unit, current, wanted placementv1alpha1.Targets) *placementv1alpha1.DecidedDivision {
	var stay []string
	for name, target := range wanted {
		if !unit[name].Left() && (target.Keeps() || target.State == placementv1alpha1.TargetStateWaiting) {
			stay = append(stay, name)
		}
	}
	if len(stay) != 1 || !anyRange(current) {
		return nil
	}
	return &placementv1alpha1.DecidedDivision{
		By:      placementv1alpha1.DivideByWeights,
		Targets: []placementv1alpha1.DecidedReplicas{{PhysicalCluster: stay[0], Weight: 1, Ordinals: true}},
	}
}

// undivide has each target that stays have all. Revisions go on where they were.
func undivide(unit Unit, wanted placementv1alpha1.Targets) {
	next := newest(wanted) + 1
	for name, target := range wanted {
		if _, ok := RangeOf(target); ok && target.Keeps() && !unit[name].Left() {
			target.Replicas, target.Share, target.Ordinals = nil, nil, &placementv1alpha1.TargetOrdinals{Revision: next}
			wanted[name] = target
		}
	}
}

// staying are the targets of a division that have, or are to have, a copy, sorted.
func staying(rule *placementv1alpha1.DecidedDivision, wanted placementv1alpha1.Targets) (names []string) {
	for _, t := range rule.Targets {
		if target, ok := wanted[t.PhysicalCluster]; ok && (target.Keeps() || target.State == placementv1alpha1.TargetStateWaiting) {
			names = append(names, t.PhysicalCluster)
		}
	}
	slices.Sort(names)
	return names
}

// divisibleByOrdinals says that a StatefulSet is divided anew.
//
//	the StatefulSet                                     then
//	goes to a target that cannot have a range           it stays as it is: all of it everywhere, or its ranges
//	was divided                                         yes
//	was not, and is or comes to one target only         no: that has all of it
//	was not, and an autoscaler scales it                no: that would leave its range
//	was not, has claims, and several targets have all   no: each has claims of each ordinal
//	was not, else                                       yes
func divisibleByOrdinals(rule *placementv1alpha1.DecidedDivision, wish Wish, current placementv1alpha1.Targets, stay []string) bool {
	if len(NoRanges(rule)) > 0 || len(stay) == 0 {
		return false
	}
	if anyRange(current) {
		return true
	}
	return len(stay) > 1 && !wish.Ordinals.Scaled && !(wish.Ordinals.Claims && wholes(current) > 1)
}

// wholes counts the targets that have a copy with all of an object.
func wholes(current placementv1alpha1.Targets) (n int) {
	for _, target := range current {
		if _, ok := RangeOf(target); !ok && target.Keeps() {
			n++
		}
	}
	return n
}

// NoRanges are the targets of a division on which a StatefulSet cannot have a range: what keeps
// its copies there would run all of it.
func NoRanges(rule *placementv1alpha1.DecidedDivision) (names []string) {
	for _, t := range rule.Targets {
		if !t.Ordinals {
			names = append(names, t.PhysicalCluster)
		}
	}
	return names
}

// give is a target with what it is given of its goal.
func give(target placementv1alpha1.Target, name string, goal span, revision int64, wish Wish, current placementv1alpha1.Targets) placementv1alpha1.Target {
	before, has := current[name]
	given, divided := RangeOf(before)
	held := span{}
	switch {
	case has && before.Keeps():
		if held = mayRun(before); !divided {
			given = anything
		}
	case wish.Ordinals.Unclear[name]:
		held = anything
	}
	next := span{Start: goal.Start, End: goal.Start}
	if target.Keeps() {
		next = granted(goal, given, held, others(name, wish, current))
	}
	target.Replicas, target.Share = ptr.To(length(next)), nil
	if next != goal {
		target.Share = ptr.To(length(goal))
	}
	ordinals := placementv1alpha1.TargetOrdinals{Start: next.Start, Revision: revision}
	if divided && next == given && before.Ordinals != nil {
		ordinals.Revision = before.Ordinals.Revision
	}
	if all := around(held, next); target.Keeps() && !empty(all) && all != next {
		ordinals.Held = &all
	}
	target.Ordinals = &ordinals
	return target
}

// others are what other targets may run.
func others(name string, wish Wish, current placementv1alpha1.Targets) (out []span) {
	for other, target := range current {
		if other != name && !empty(mayRun(target)) {
			out = append(out, mayRun(target))
		}
	}
	for other, unclear := range wish.Ordinals.Unclear {
		if _, has := current[other]; unclear && !has && other != name {
			out = append(out, anything)
		}
	}
	return out
}

// granted is what of a goal a target gets that was given one range, and may run another one,
// which has it in it.
func granted(goal, given, held span, others []span) span {
	base := both(given, goal)
	if slices.ContainsFunc(others, func(o span) bool { return overlap(o, held) }) {
		if empty(base) { // several had all of it: nothing is begun before that has ended
			base = span{Start: goal.Start, End: goal.Start}
		}
		return base
	}
	switch {
	case !empty(base):
	case overlap(held, goal):
		base = both(held, goal)
	case !empty(held): // it is to have others than it has: these end first
		return span{Start: goal.Start, End: goal.Start}
	default:
		return free(goal, others)
	}
	next := goal
	for _, o := range others {
		switch {
		case o.Start >= base.End:
			next.End = min(next.End, o.Start)
		case o.End <= base.Start:
			next.Start = max(next.Start, o.End)
		}
	}
	return next
}

// free is the longest part of a range that is in no other, the first of them.
func free(r span, taken []span) span {
	slices.SortFunc(taken, func(a, b span) int { return cmp.Compare(a.Start, b.Start) })
	best, at := span{Start: r.Start, End: r.Start}, r.Start
	for _, t := range append(taken, span{Start: r.End, End: r.End}) {
		if part := (span{Start: at, End: min(t.Start, r.End)}); length(part) > length(best) {
			best = part
		}
		at = max(at, t.End)
	}
	return best
}

// allOf is the one target of a division: without a range, as soon as there is nothing else.
func allOf(target placementv1alpha1.Target, name string, current placementv1alpha1.Targets) placementv1alpha1.Target {
	if !target.Keeps() || target.Share != nil || target.Ordinals.Held != nil {
		return target
	}
	for other, has := range current {
		if other != name && !empty(mayRun(has)) {
			return target
		}
	}
	target.Replicas = nil
	target.Ordinals = &placementv1alpha1.TargetOrdinals{Revision: target.Ordinals.Revision}
	return target
}
