package stamp

import (
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// span are ordinals that follow one another.
type span = placementv1alpha1.OrdinalRange

// anything is what a target may run of which nobody knows what it was given before.
var anything = span{End: math.MaxInt32}

func empty(s span) bool { return s.End <= s.Start }

func length(s span) int32 { return max(0, s.End-s.Start) }

func overlap(a, b span) bool { return !empty(both(a, b)) }

// both are the ordinals that are in two ranges.
func both(a, b span) span { return span{Start: max(a.Start, b.Start), End: min(a.End, b.End)} }

// around is the smallest range with two others in it.
func around(a, b span) span {
	switch {
	case empty(a):
		return b
	case empty(b):
		return a
	}
	return span{Start: min(a.Start, b.Start), End: max(a.End, b.End)}
}

// from is the range of so many ordinals; none is larger than a number can be.
func from(start int32, n int64) span {
	return span{Start: start, End: int32(min(int64(start)+max(0, n), math.MaxInt32))} //nolint:gosec // it is bounded
}

// RangeOf are the ordinals that a target is given; ok is false if it is not divided by them.
func RangeOf(t placementv1alpha1.Target) (r placementv1alpha1.OrdinalRange, ok bool) {
	if t.Ordinals == nil || t.Replicas == nil {
		return span{}, false
	}
	return from(t.Ordinals.Start, int64(*t.Replicas)), true
}

// AwaitsOrdinals says that a target has a copy that runs no ordinals yet, and is to run some once others do not.
func AwaitsOrdinals(t placementv1alpha1.Target) bool {
	r, ok := RangeOf(t)
	return ok && t.Keeps() && empty(r) && ptr.Deref(t.Share, 0) > 0
}

// mayRun are the ordinals of which pods may run on a target.
//
//	the target                               then
//	has no copy, and none to be removed      none
//	is not divided by ordinals               anything: it had all, of whatever sum that was
//	is divided, and ran others, or may have  what is noted as held, and its range
//	is divided, else                         its range
func mayRun(t placementv1alpha1.Target) span {
	if !t.Keeps() && t.State != placementv1alpha1.TargetStateRemoving {
		return span{}
	}
	given, ok := RangeOf(t)
	switch {
	case !ok:
		return anything
	case t.Ordinals.Held != nil:
		return around(*t.Ordinals.Held, given)
	}
	return given
}

// Ranged says that an object is divided by ordinals.
func Ranged(obj metav1.Object) bool { return anyRange(TargetsOf(obj.GetAnnotations())) }

func anyRange(targets placementv1alpha1.Targets) bool {
	for _, target := range targets {
		if _, ok := RangeOf(target); ok {
			return true
		}
	}
	return false
}

// newest is the last revision of any range.
func newest(targets placementv1alpha1.Targets) (revision int64) {
	for _, target := range targets {
		if target.Ordinals != nil {
			revision = max(revision, target.Ordinals.Revision)
		}
	}
	return revision
}

// Vacated are the targets of a StatefulSet without what is not held any more: runs is what Copies
// say that may run there, for the revision that they name.
//
//	a Copy has                            then
//	no revision, or an older one          what is held stays: it may be from before
//	the revision of the target            held is what it says, and the range
//	a newer one: the object is that of a  the target has no more than it says, and holds anything,
//	backup                                until its Copy knows a revision after that
func Vacated(current placementv1alpha1.Targets, runs map[string]placementv1alpha1.CopyOrdinals) placementv1alpha1.Targets {
	next := make(placementv1alpha1.Targets, len(current))
	for name, target := range current {
		next[name] = target
		given, ok := RangeOf(target)
		report, said := runs[name]
		if !ok || !said || !target.Keeps() || report.Revision < target.Ordinals.Revision {
			continue
		}
		ordinals, held := *target.Ordinals, span{Start: report.Start, End: report.End}
		switch {
		case report.Revision > ordinals.Revision:
			all := anything
			given = both(given, held)
			given.End = max(given.Start, given.End)
			target.Share = ptr.To(ptr.Deref(target.Share, *target.Replicas))
			target.Replicas = ptr.To(length(given))
			ordinals = placementv1alpha1.TargetOrdinals{Start: given.Start, Revision: report.Revision + 1, Held: &all}
		case ordinals.Held == nil:
			continue
		default:
			held = both(around(held, given), mayRun(target))
			if ordinals.Held = &held; held == given || empty(held) {
				ordinals.Held = nil
			}
		}
		target.Ordinals = &ordinals
		next[name] = target
	}
	return next
}

// HeldOn are the ordinals that a target may run beside its range; empty if there are none.
func HeldOn(t placementv1alpha1.Target) placementv1alpha1.OrdinalRange {
	if t.Ordinals == nil || t.Ordinals.Held == nil {
		return span{}
	}
	return *t.Ordinals.Held
}
