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

// Wish is how many replicas of an object are wanted, and what one of them needs.
type Wish struct {
	Replicas int32
	Requests corev1.ResourceList
}

// WishOf is that of an object of a kind whose replicas can be divided; nil of any other.
func WishOf(kind workload.Kind, obj map[string]any) *Wish {
	if !kind.Divisible() {
		return nil
	}
	wish := &Wish{Replicas: int32(min(workload.Replicas(kind, obj), 1<<31-1))} //nolint:gosec // it is bounded
	for _, t := range workload.PodTemplates(kind, obj) {
		wish.Requests, _ = workload.PodRequests(t) // what cannot be read needs nothing
	}
	return wish
}

// divided gives wanted targets the replicas that a wish comes to, given what they have.
// What the unit leaves, and has it all, keeps what it has.
//
//	the target        has          its share is        then replicas
//	of the division   no copy yet  any                 the share
//	                  any          not less            the share
//	                  less, and another one gets more, what it has, but no more than the wish:
//	                  or it had all, or kept more      see Released
//	                  less, else: the wish fell        the share
//	of no division    any                              what it has
func divided(rule *placementv1alpha1.DecidedDivision, wish *Wish, current, wanted placementv1alpha1.Targets) {
	for name, target := range wanted {
		if has, ok := current[name]; ok && target.Keeps() {
			target.Replicas, target.Share = has.Replicas, has.Share
			wanted[name] = target
		}
	}
	if wish == nil {
		return // of objects of which only the metadata are known
	}
	shares := sharesOf(rule, *wish, current, wanted)
	raised := false
	for name, share := range shares {
		has, ok := applied(current, name, wish.Replicas)
		raised = raised || share > 0 && (!ok || share > has)
	}
	for name, share := range shares {
		target := wanted[name]
		target.Replicas, target.Share = ptr.To(share), nil
		has, ok := applied(current, name, wish.Replicas)
		before := current[name]
		if has = min(has, wish.Replicas); ok && share < has && (raised || before.Replicas == nil || before.Share != nil) {
			target.Replicas, target.Share = ptr.To(has), ptr.To(share)
		}
		wanted[name] = target
	}
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
// does not name has all, until the policies are heard again.
func sharesOf(rule *placementv1alpha1.DecidedDivision, wish Wish, current, wanted placementv1alpha1.Targets) map[string]int32 {
	var targets []division.Target
	for _, t := range rule.Targets {
		target, ok := wanted[t.PhysicalCluster]
		if !ok || !target.Keeps() && target.State != placementv1alpha1.TargetStateWaiting {
			continue
		}
		one := division.Target{
			Name: t.PhysicalCluster, Weight: int64(t.Weight), Room: room(t.Free, wish.Requests),
			Min: int64(ptr.Deref(t.Min, 0)), Max: int64(ptr.Deref(t.Max, -1)),
		}
		if has, ok := current[t.PhysicalCluster]; ok && (has.Keeps() || has.NoCopy()) {
			one.Present = int64(ptr.Deref(has.Share, ptr.Deref(has.Replicas, 0)))
		}
		targets = append(targets, one)
	}
	slices.SortFunc(targets, func(a, b division.Target) int { return cmp.Compare(a.Name, b.Name) })
	out := make(map[string]int32, len(targets))
	for i, share := range division.Divide(division.By(rule.By), targets, int64(wish.Replicas)) {
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
	wish := WishOf(kind, obj)
	if wish == nil {
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

// Held says that an object has more replicas somewhere than its share: until others are
// available.
func Held(obj metav1.Object) bool {
	for _, target := range TargetsOf(obj.GetAnnotations()) {
		if target.Keeps() && target.Share != nil {
			return true
		}
	}
	return false
}

// Released are the targets of an object when as many of the replicas that were kept are
// given up as others have taken over: what stays is available as often as is wanted, if it
// ever was. available are the replicas of each target that are, if that is known.
//
//	a target that keeps more than its share, of which
//	it is not known how many are available keeps them
//	no more than the share are available   comes to its share: it loses nothing
//	else                                   comes to what the others lack of the wish, and no less
//	                                       than its share
func Released(current placementv1alpha1.Targets, wish int32, available map[string]int32) placementv1alpha1.Targets {
	next := make(placementv1alpha1.Targets, len(current))
	for name, target := range current {
		next[name] = target
	}
	have := func(name string) int32 {
		if !next[name].Receives() {
			return 0
		}
		return min(available[name], ptr.Deref(next[name].Replicas, wish))
	}
	for _, name := range current.Names() {
		target := next[name]
		running, known := available[name]
		if !target.Keeps() || target.Share == nil || target.Replicas == nil || !known {
			continue
		}
		others := int32(0)
		for other := range next {
			if other != name {
				others += have(other)
			}
		}
		to := *target.Share
		if running > to {
			to = min(max(to, wish-others), *target.Replicas)
		}
		if target.Replicas = ptr.To(to); to <= *target.Share {
			target.Share = nil
		}
		next[name] = target
	}
	return next
}

// ReplicasOn is how many replicas of an object are wanted on a target, of all of them.
func ReplicasOn(obj metav1.Object, name string, all int64) int64 {
	if n := TargetsOf(obj.GetAnnotations())[name].Replicas; n != nil {
		return int64(*n)
	}
	return all
}
