package transition

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// short says how many replicas of a divided object are not available where it is decided,
// which were before; empty: none. Each target has a part of them, so that one may make good
// for another. What is left has the replicas L, of which F are available. What stays had the
// rest of the wish, of which no more were available than now, S. Where an autoscaler says how many there are, see takenOver.
//
//	available where it is decided     then
//	F + min(S, wish - L), or more     nothing is worse than it was
//	fewer                             it waits; not if those that come mount a claim that comes
//	                                  only once its volume is given up, see awaitsClaims
func (s State) short(o Object, t *placementv1alpha1.Transition) string {
	if o.Logical.GetDeletionTimestamp() != nil || !o.Kind.Replicated() || !s.divides(o) {
		return ""
	}
	wish := workload.Replicas(o.Kind, o.Logical.Object)
	targets := o.targets()
	left, lost, have, stays := int64(0), int64(0), int64(0), int64(0)
	for _, name := range t.From {
		target, ok := targets[name]
		if !ok || !target.Keeps() || slices.Contains(t.Withdrawn, name) {
			continue
		}
		left += stamp.ReplicasOn(o.Logical, name, wish)
		for _, c := range o.on([]string{name}) {
			lost += availableIn(c)
		}
	}
	for _, name := range s.Decided {
		for _, c := range o.on([]string{name}) {
			n := min(o.takenOver(name, availableIn(c)), stamp.ReplicasOn(o.Logical, name, wish))
			if have += n; !slices.Contains(t.To, name) {
				stays += n
			}
		}
	}
	want := min(wish, lost+min(stays, max(0, wish-left)))
	if have >= want || slices.ContainsFunc(t.To, func(name string) bool { return s.awaitsClaims(o, name) }) {
		return ""
	}
	return fmt.Sprintf("%d of %d pods are available", have, want)
}

// divides says that the replicas of an object are divided, or were where it leaves, and that
// none of it waits to be started: what must not run twice is stopped first.
func (s State) divides(o Object) bool {
	targets := o.targets()
	divided := false
	for _, target := range targets {
		divided = divided || target.Keeps() && target.Replicas != nil
	}
	return divided && !slices.ContainsFunc(s.Decided, func(name string) bool { return targets[name].State == placementv1alpha1.TargetStateWaiting })
}

// leadsToDivided says that a Service selects pods of something of which each target has a
// part: all that are available there have to be reached before others go.
func (s State) leadsToDivided(service Object) bool {
	return slices.ContainsFunc(s.selected(selectorOf(service)), func(i int) bool { return s.Objects[i].Kind.Replicated() && s.divides(s.Objects[i]) })
}

// Reached is how many of the available replicas of an object clients reach on each target,
// where some of those on other targets are to be given up. Slices follow pods a moment later.
//
//	a Service that selects them                       counts on a target
//	has no ready endpoints where they are given up    all: nothing of it is lost
//	else                                              those for which it has ready endpoints; what it lacks
//	                                                  for all pods that it selects there is taken to be
//	                                                  of this object
//
// s has everything in the namespace that makes pods, and the Services. The one that lacks most
// decides, and is named; empty if none does.
func (s State) Reached(o Object, from []string) (reached map[string]int32, by string) {
	s = s.indexed()
	reached = map[string]int32{}
	for name, c := range o.Copies {
		if n, known := Available(c); known {
			reached[name] = n
		}
	}
	for _, service := range s.Objects {
		selector := selectorOf(service)
		if service.Kind.Semantics != workload.ServiceSemantics || len(selector) == 0 || !selects(selector, o) ||
			service.Logical.GetDeletionTimestamp() != nil || s.ready(service, from...) == 0 {
			continue
		}
		for name, n := range reached {
			lacks := toCount(int64(s.available(service, name) - s.ready(service, name)))
			if left := max(0, toCount(availableIn(o.Copies[name]))-lacks); left < n && !slices.Contains(from, name) {
				reached[name], by = left, service.Logical.GetName()
			}
		}
	}
	return reached, by
}

// TakenOver is how many replicas of an object count on each target where those on others are to be given up, of those that are
// available there, or reached. What an autoscaler has there is what it wants within its own part, and may be less than the part
// of the object for as long as there is no more to do. That it wants enough is in its bounds, see takeOver of pkg/stamp.
//
//	an autoscaler of it on the target   of what it made             counts
//	is none, or waits                   any                         what there is
//	is there                            something lacks, or is less what there is
//	                                    than the least that it has
//	is there                            all are there               the part of the object, or what there is if that is more
func (o Object) TakenOver(have map[string]int32) map[string]int32 {
	out := make(map[string]int32, len(have))
	for name, n := range have {
		out[name] = toCount(o.takenOver(name, int64(n)))
	}
	return out
}

func (o Object) takenOver(name string, have int64) int64 {
	by, ok := o.scaler()
	if !ok || have == 0 {
		return have
	}
	made, _ := number(observed(o.Copies[name]), "replicas")
	at, ok := stamp.TargetsOf(by.GetAnnotations())[name]
	if !ok || !at.Keeps() || have < max(made, int64(ptr.Deref(at.Replicas, 0))) {
		return have
	}
	return max(have, stamp.ReplicasOn(o.Logical, name, workload.Replicas(o.Kind, o.Logical.Object)))
}

// Wanted is what of an object is divided; nil if nothing is, or it is not known.
func (o Object) Wanted() *stamp.Wish {
	if o.Wish != nil {
		return o.Wish
	}
	return stamp.WishOf(o.Kind, o.Logical.Object, nil)
}

// Protected is how many pods a disruption budget wants on a target, by its Copy, and how many
// of them are healthy; known is false if the Copy does not say.
func Protected(c *placementv1alpha1.Copy) (wants, healthy int32, known bool) {
	status := observed(c)
	desired, known := number(status, "desiredHealthy")
	current, _ := number(status, "currentHealthy")
	return toCount(desired), toCount(min(desired, current)), known
}

// Permitted is how many pods a disruption budget lets go on a target, by its Copy: of those
// that there are. known is false if the Copy does not say.
func Permitted(c *placementv1alpha1.Copy) (n int32, known bool) {
	status := observed(c)
	wants, known := number(status, "desiredHealthy")
	expected, _ := number(status, "expectedPods")
	return toCount(expected - wants), known
}

func toCount(n int64) int32 { return int32(max(0, min(n, math.MaxInt32))) } //nolint:gosec // it is bounded
