package stamp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Held says that an object has more replicas somewhere than its share, until others are
// available, or may run ordinals there that it is not given any more.
func Held(obj metav1.Object) bool {
	for _, target := range TargetsOf(obj.GetAnnotations()) {
		if target.Keeps() && (target.Share != nil || !empty(HeldOn(target))) {
			return true
		}
	}
	return false
}

// HasPart says that some target has a part of the replicas of an object.
func HasPart(obj metav1.Object) bool {
	for _, target := range TargetsOf(obj.GetAnnotations()) {
		if target.Replicas != nil {
			return true
		}
	}
	return false
}

// Released are the targets of an object when as many of the replicas that were kept are
// given up as others have taken over: what stays is available as often as is wanted, if it
// ever was. available are the replicas of each target that are, if that is known; reached are
// those of them that clients reach there, which is what counts as taken over.
//
//	a target that keeps more than its share, of which
//	it is not known how many are available keeps them
//	no more than the share are available   comes to its share: it loses nothing
//	else                                   comes to what the others lack of the wish, and no less
//	                                       than its share
func Released(current placementv1alpha1.Targets, wish int32, available, reached map[string]int32) placementv1alpha1.Targets {
	return released(current, wish, available, reached, nil)
}

// Yielded are those of a disruption budget, when what a target kept is given up as others
// keep it: wants are the pods that it wants there now, protects those of them that are healthy.
// Also what has no healthy pods gives up no more than others want: some may come.
func Yielded(current placementv1alpha1.Targets, wish int32, wants, protects map[string]int32) placementv1alpha1.Targets {
	return released(current, wish, protects, protects, wants)
}

func released(current placementv1alpha1.Targets, wish int32, available, reached, wants map[string]int32) placementv1alpha1.Targets {
	next := make(placementv1alpha1.Targets, len(current))
	for name, target := range current {
		next[name] = target
	}
	others := func(name string, have map[string]int32) (n int32) {
		for other, target := range next {
			if other != name && target.Receives() {
				n += min(have[other], ptr.Deref(target.Replicas, wish))
			}
		}
		return n
	}
	for _, name := range current.Names() {
		target := next[name]
		running, known := available[name]
		if !target.Keeps() || target.Share == nil || target.Replicas == nil || !known || *target.Share > *target.Replicas {
			continue
		}
		to := *target.Share
		if wants != nil {
			to = min(max(to, wish-others(name, wants)), *target.Replicas)
		}
		if running > to {
			to = min(max(to, wish-others(name, reached)), *target.Replicas)
		}
		if target.Replicas = ptr.To(to); to <= *target.Share {
			target.Share = nil
		}
		next[name] = target
	}
	return next
}

// Granted are the targets of an object with a ceiling when those that wait for more get what
// others do not use any more. used are what each target goes by, if that is known.
//
//	a target                       it uses
//	waits for more, not known      what it has: it has no more before it gets it
//	else, not known                all, as it may have before
//	known                          that, but no less than it has
func Granted(current placementv1alpha1.Targets, ceiling int32, used map[string]int32) placementv1alpha1.Targets {
	next := make(placementv1alpha1.Targets, len(current))
	left := int64(ceiling)
	for name, target := range current {
		next[name] = target
		if !target.Keeps() {
			continue
		}
		has := ptr.Deref(target.Replicas, ceiling)
		n, known := used[name]
		if !known && (target.Share == nil || *target.Share <= has) {
			n = ceiling
		}
		left -= int64(max(n, has))
	}
	for _, name := range current.Names() {
		target := next[name]
		if !target.Keeps() || target.Share == nil || target.Replicas == nil {
			continue
		}
		more := int32(max(0, min(int64(*target.Share-*target.Replicas), left))) //nolint:gosec // no more than the share
		left -= int64(more)
		if target.Replicas = ptr.To(*target.Replicas + more); *target.Replicas >= *target.Share {
			target.Share = nil
		}
		next[name] = target
	}
	return next
}
