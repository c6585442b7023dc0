package stamp

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// place is where a target is in the order of the ranges.
type place struct {
	name  string
	start int32
	// empty comes before what begins at the same ordinal; known says that it is no new one.
	empty, known bool
}

// goalsOf are the ranges to which shares come: one after the other, in the order in which the
// targets have them now. What is new takes the place of what leaves, or is the last.
//
// What has claims never leaves an ordinal: where the ranges begin is kept, the last one grows
// and becomes smaller, and what is new gets what leaves.
func goalsOf(shares map[string]int32, wish Wish, current placementv1alpha1.Targets, stay []string) map[string]span {
	places := placesOf(wish, current, stay)
	whole := from(wish.Ordinals.Start, int64(wish.Replicas))
	goals := make(map[string]span, len(places))
	if !wish.Ordinals.Claims || !slices.ContainsFunc(places, func(p place) bool { return p.known }) {
		at := whole.Start
		for _, p := range places {
			goals[p.name] = from(at, int64(shares[p.name]))
			at = goals[p.name].End
		}
		return goals
	}
	for i, p := range places {
		end := whole.End
		if i+1 < len(places) && places[i+1].known {
			end = min(end, places[i+1].start)
		}
		start := p.start
		if i == 0 {
			start = min(start, whole.Start)
		}
		if start = max(start, whole.Start); !p.known && i > 0 {
			start = whole.End
		}
		goals[p.name] = span{Start: start, End: max(start, end)}
	}
	return goals
}

// placesOf are the targets in the order of their ranges.
func placesOf(wish Wish, current placementv1alpha1.Targets, stay []string) []place {
	var places, left []place
	for name, target := range current {
		if r, ok := RangeOf(target); ok && mayRun(target) != (span{}) && !slices.Contains(stay, name) {
			left = append(left, place{name: name, start: r.Start})
		} else if !ok && target.Keeps() && !slices.Contains(stay, name) {
			left = append(left, place{name: name, start: wish.Ordinals.Start})
		}
	}
	inOrder(left)
	arrived := 0
	for _, name := range stay {
		target, has := current[name]
		p := place{name: name, start: math.MaxInt32}
		switch claims, kept := wish.Ordinals.Former[name]; {
		case has && target.Ordinals != nil && (target.Replicas != nil || !target.Keeps()):
			p.start, p.empty, p.known = target.Ordinals.Start, ptr.Deref(target.Replicas, 0) == 0, true
		case has && target.Keeps():
			p.start, p.known = wish.Ordinals.Start, true
		case kept:
			p.start, p.known = claims.Start, true
		case arrived < len(left):
			p.start, p.known = left[arrived].start, true
			arrived++
		}
		places = append(places, p)
	}
	inOrder(places)
	return places
}

func inOrder(places []place) {
	slices.SortFunc(places, func(a, b place) int {
		first := 0
		if a.empty != b.empty {
			if first = 1; a.empty {
				first = -1
			}
		}
		return cmp.Or(cmp.Compare(a.start, b.start), first, cmp.Compare(a.name, b.name))
	})
}
