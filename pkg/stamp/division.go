package stamp

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/division"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxRoom bounds how many replicas are said to fit somewhere: what asks for nothing fits
// always, and what has not reported may have any room.
const maxRoom = 100_000

// unsized is what a replica is taken to need that says nothing, to tell more room from less.
var unsized = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}

// DivisionOf is how a placement divides replicas; nil if each physical cluster has all.
func DivisionOf(p *placementv1alpha1.Placement) *placementv1alpha1.DecidedDivision {
	if p == nil || p.Spec.Decision == nil {
		return nil
	}
	return p.Spec.Decision.Division
}

// divided gives wanted targets the replicas that a wish comes to, given what they have.
// What the unit leaves, and has it all, keeps what it has, see noMore.
//
//	the target        has          its share is        then replicas
//	of the division   no copy yet  any                 the share
//	                  any          not less            the share
//	                  less, and another one gets more, what it has, but no more than the wish:
//	                  or keeps what it was to give up; see Released
//	                  or it had all, or kept more;
//	                  or what there is was not divided
//	                  by this rule, see fell
//	                  less, else: the wish fell        the share
//	of no division    any                              what it has, but no more than the wish
//
// What has a ceiling is lowered first, and raised once the others have lowered, see Granted:
//
//	of the division   any                  not more             the share
//	                  any                  more, and another    what it has
//	                                       one gets less, or
//	                                       any waits already
//	                  any                  more, else           the share: the wish rose
//
// The parts of a Job that has begun stay as they are.
func divided(rule *placementv1alpha1.DecidedDivision, wish *Wish, unit Unit, current, wanted placementv1alpha1.Targets) {
	if wish != nil && wish.Whole {
		return
	}
	keepParts(current, wanted)
	if wish == nil || wish.Runs && begun(current) {
		return // also of objects of which only the metadata are known
	}
	noMore(wish, wanted)
	shares := sharesOf(rule, *wish, current, wanted)
	moves := !wish.Ceiling && !fell(rule, *wish, current, wanted, shares)
	for name, share := range shares {
		has, ok := applied(current, name, wish.Replicas)
		switch {
		case wish.Weights != nil && ok && current[name].Share != nil:
			moves = true // also what follows another change waits for that
		case wish.Ceiling:
			moves = moves || ok && share < has
		default:
			// Who was about to give up what it has gets more, too, if it is to keep some of it: it may not run yet.
			moves = moves || share > 0 && (!ok || share > min(has, ptr.Deref(current[name].Share, has)))
		}
	}
	for name, share := range shares {
		target := wanted[name]
		target.Replicas, target.Share = ptr.To(share), nil
		has, ok := applied(current, name, wish.Replicas)
		before := current[name]
		switch {
		case wish.Ceiling:
			if share > has && moves {
				target.Replicas, target.Share = ptr.To(has), ptr.To(share)
			}
		case ok && share < min(has, wish.Replicas) && (moves || before.Replicas == nil || before.Share != nil):
			target.Replicas, target.Share = ptr.To(min(has, wish.Replicas)), ptr.To(share)
		}
		wanted[name] = target
	}
	switch {
	case wish.Runs:
		divideCompletions(*wish, shares, wanted)
	case wish.Max != nil:
		divideMax(rule, *wish, shares, current, wanted)
		takeOver(*wish, unit, wanted)
	}
}

// takeOver has parts of an autoscaler want no fewer than the parts of what it scales for as long as some of that is to be taken
// over from another target, which the unit leaves, or which keeps more than its share. It measures the load of that only once
// clients have come, and would run fewer until then.
func takeOver(wish Wish, unit Unit, wanted placementv1alpha1.Targets) {
	if len(Serving(unit, wish.Scales)) == 0 && !slices.ContainsFunc(wish.Scales.Names(), func(name string) bool { return wish.Scales[name].Keeps() && wish.Scales[name].Share != nil }) {
		return
	}
	for name, target := range wanted {
		scaled, ok := wish.Scales[name]
		if !ok || !scaled.Keeps() || scaled.Replicas == nil || unit[name].Left() || target.Replicas == nil || target.Max == nil {
			continue
		}
		if most := min(*scaled.Replicas, *target.Max); most > *target.Replicas {
			target.Replicas, target.Share = &most, nil
			wanted[name] = target
		}
	}
}

// fell says that shares become less because the wish did: what targets have is what the rule makes of the sum of
// it. Else somebody was given more a moment ago, as when replicas were not divided for a while, and may not run it yet.
func fell(rule *placementv1alpha1.DecidedDivision, wish Wish, current, wanted placementv1alpha1.Targets, shares map[string]int32) bool {
	wish.Replicas = 0
	for name := range shares {
		target := current[name]
		if !target.Keeps() || target.Replicas == nil {
			return false
		}
		wish.Replicas += *target.Replicas
	}
	before := sharesOf(rule, wish, current, wanted)
	for name := range shares {
		if before[name] != *current[name].Replicas {
			return false
		}
	}
	return true
}

// keepParts leaves wanted targets what they have.
func keepParts(current, wanted placementv1alpha1.Targets) {
	for name, target := range wanted {
		if has, ok := current[name]; ok && target.Keeps() {
			target.Replicas, target.Share, target.Max, target.Completions = has.Replicas, has.Share, has.Max, has.Completions
			wanted[name] = target
		}
	}
}

// keepLeft leaves what a unit leaves with the part that it has, if the replicas are not divided
// any more: nothing is raised to be removed, and what it was says how much the others lack.
func keepLeft(unit Unit, wish *Wish, current, wanted placementv1alpha1.Targets) {
	for name, target := range wanted {
		if has, ok := current[name]; ok && target.Keeps() && unit[name].Left() {
			target.Replicas, target.Max, target.Completions = has.Replicas, has.Max, has.Completions
			wanted[name] = target
		}
	}
	noMore(wish, wanted)
}

// noMore has no wanted target keep more than the wish, if that is known: who scales to nothing while the unit moves has nothing
// run on, and nobody waits for as many elsewhere.
func noMore(wish *Wish, wanted placementv1alpha1.Targets) {
	if wish == nil || wish.Runs {
		return
	}
	for name, target := range wanted {
		if target.Replicas != nil && *target.Replicas > wish.Replicas {
			if target.Replicas = ptr.To(wish.Replicas); target.Share != nil && *target.Share >= wish.Replicas {
				target.Share = nil
			}
		}
		if wish.Max != nil && target.Max != nil && *target.Max > *wish.Max {
			target.Max = wish.Max
		}
		wanted[name] = target
	}
}

// begun says that an object has had copies, or is about to.
func begun(current placementv1alpha1.Targets) bool {
	for _, target := range current {
		if target.State != placementv1alpha1.TargetStateWaiting {
			return true
		}
	}
	return false
}

// divideCompletions gives each part of a Job what has to succeed there: in proportion to the
// pods that run at a time, and nothing where none does.
func divideCompletions(wish Wish, shares map[string]int32, wanted placementv1alpha1.Targets) {
	targets := make([]division.Target, 0, len(shares))
	for name, share := range shares {
		one := division.Target{Name: name, Weight: int64(share), Min: int64(share), Max: -1}
		if share == 0 {
			one.Max = 0
		}
		targets = append(targets, one)
	}
	sortByName(targets)
	parts := division.Divide(division.Weights, targets, int64(ptr.Deref(wish.Completions, 0)))
	for i, t := range targets {
		target := wanted[t.Name]
		if target.Completions = nil; wish.Completions != nil || t.Weight == 0 {
			target.Completions = ptr.To(int32(parts[i])) //nolint:gosec // no more than the wish
		}
		wanted[t.Name] = target
	}
}

// divideMax gives each part of an autoscaler its most replicas: no fewer than the least that
// it has now, and none where there is nothing to scale.
func divideMax(rule *placementv1alpha1.DecidedDivision, wish Wish, shares map[string]int32, current, wanted placementv1alpha1.Targets) {
	var targets []division.Target
	for _, t := range rule.Targets {
		target := wanted[t.PhysicalCluster]
		if _, ok := shares[t.PhysicalCluster]; !ok {
			continue
		}
		least := int64(*target.Replicas)
		if least == 0 && wish.Replicas > 0 {
			target.Max = ptr.To[int32](0)
			wanted[t.PhysicalCluster] = target
			continue
		}
		one := division.Target{
			Name: t.PhysicalCluster, Weight: int64(t.Weight), Room: room(t.Free, nil), Min: least, Max: -1,
			Present: int64(ptr.Deref(current[t.PhysicalCluster].Max, 0)),
		}
		if t.Max != nil {
			one.Max = max(least, int64(*t.Max))
		}
		targets = append(targets, one)
	}
	sortByName(targets)
	for i, most := range division.Divide(division.By(rule.By), targets, int64(*wish.Max)) {
		target := wanted[targets[i].Name]
		target.Max = ptr.To(int32(max(most, targets[i].Min))) //nolint:gosec // no more than the wish
		wanted[targets[i].Name] = target
	}
}

func sortByName(targets []division.Target) {
	slices.SortFunc(targets, func(a, b division.Target) int { return cmp.Compare(a.Name, b.Name) })
}

// applied is how many replicas a target has been given; ok is false if it has no copy.
func applied(current placementv1alpha1.Targets, name string, wish int32) (n int32, ok bool) {
	target, ok := current[name]
	if !ok || !target.Keeps() {
		return 0, false
	}
	return ptr.Deref(target.Replicas, wish), true
}

// sharesOf are the shares of a wish on the wanted targets of a division. What it
// does not name has all, until the policies are heard again. Where an earlier removal has to
// end first, which a silent physical cluster may put off, nothing can run: others have its part.
//
// An autoscaler cannot start from nothing: its part is one, where it has one.
func sharesOf(rule *placementv1alpha1.DecidedDivision, wish Wish, current, wanted placementv1alpha1.Targets) map[string]int32 {
	var targets []division.Target
	by, started := division.By(rule.By), int32(0)
	for _, t := range rule.Targets {
		target, ok := wanted[t.PhysicalCluster]
		if !ok || !target.Keeps() && target.State != placementv1alpha1.TargetStateWaiting || current[t.PhysicalCluster].State == placementv1alpha1.TargetStateRemoving {
			continue
		}
		one := division.Target{
			Name: t.PhysicalCluster, Weight: int64(t.Weight), Room: room(t.Free, wish.Requests),
			Min: int64(ptr.Deref(t.Min, 0)), Max: int64(ptr.Deref(t.Max, -1)),
		}
		if wish.Weights != nil {
			n := int64(wish.Weights[t.PhysicalCluster])
			by, one.Weight, one.Min, one.Max = division.Weights, n, 0, n
		}
		if wish.Max != nil && wish.Replicas > 0 && one.Max != 0 && (one.Min > 0 || one.Weight > 0 || by != division.Weights) {
			one.Min = max(1, one.Min)
			started++
		}
		if has, ok := current[t.PhysicalCluster]; ok && (has.Keeps() || has.NoCopy()) {
			one.Present = int64(ptr.Deref(has.Share, ptr.Deref(has.Replicas, 0)))
			if wish.Max != nil { // it may want more for a while, see takeOver
				one.Present = min(one.Present, int64(wish.Replicas))
			}
		}
		targets = append(targets, one)
	}
	sortByName(targets)
	n := wish.Replicas
	if wish.Max != nil {
		n = min(max(n, started), *wish.Max)
	}
	out := make(map[string]int32, len(targets))
	for i, share := range division.Divide(by, targets, int64(n)) {
		out[targets[i].Name] = int32(share) //nolint:gosec // no more than the wish
	}
	return out
}

// room is how many replicas fit into what is free.
func room(free, requests corev1.ResourceList) int64 {
	asks := corev1.ResourceList{}
	for name, q := range requests {
		if q.Sign() > 0 {
			asks[name] = q
		}
	}
	if len(asks) == 0 {
		asks = unsized
	}
	fit := int64(maxRoom)
	for name, q := range asks {
		if left, ok := free[name]; ok && q.MilliValue() > 0 {
			fit = min(fit, max(0, left.MilliValue()/q.MilliValue()))
		}
	}
	return fit
}

// SharesOf are the replicas that a new object would have on each physical cluster of a
// division; none if its kind is not divisible.
func SharesOf(rule *placementv1alpha1.DecidedDivision, kind workload.Kind, obj map[string]any) []placementv1alpha1.ReplicaShare {
	wish := WishOf(kind, obj, []Other{})
	if wish == nil || wish.Whole || wish.Alone || wish.Max != nil || wish.Weights != nil || wish.Ordinals != nil && len(NoRanges(rule)) > 0 {
		return nil
	}
	wanted := placementv1alpha1.Targets{}
	for _, t := range rule.Targets {
		wanted[t.PhysicalCluster] = placementv1alpha1.Target{}
	}
	var out []placementv1alpha1.ReplicaShare
	shares := sharesOf(rule, *wish, nil, wanted)
	for _, name := range wanted.Names() {
		out = append(out, placementv1alpha1.ReplicaShare{PhysicalCluster: name, Replicas: shares[name]})
	}
	return out
}

// ReplicasOn is how many replicas of an object are wanted on a target, of all of them.
func ReplicasOn(obj metav1.Object, name string, all int64) int64 {
	if n := TargetsOf(obj.GetAnnotations())[name].Replicas; n != nil {
		return int64(*n)
	}
	return all
}
