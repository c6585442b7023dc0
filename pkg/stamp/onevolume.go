package stamp

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Alike are the other targets that have the volume which a claim has on one of them, sorted. The
// target that made the volume has an entry without one, and all others have the volume in theirs.
func Alike(targets placementv1alpha1.Targets, name string) []string {
	own := 0 // volumes that were made for a target
	for _, target := range targets {
		if holdsVolume(target) && !handedOver(target) {
			own++
		}
	}
	is, ok := targets[name]
	if !ok || own > 1 || !holdsVolume(is) {
		return nil
	}
	return slices.DeleteFunc(targets.Names(), func(other string) bool {
		target := targets[other]
		return other == name || !holdsVolume(target) || !handedOver(is) && !handedOver(target)
	})
}

// Outlives says of a claim that is deleted that its data are not yet to be touched on a target: another
// one has the volume, and goes first. The one that made the volume is last; if it is gone, the first by name.
func Outlives(targets placementv1alpha1.Targets, name string) bool {
	others := Alike(targets, name)
	if len(others) == 0 {
		return false
	}
	if !handedOver(targets[name]) {
		return true
	}
	return !slices.ContainsFunc(others, func(other string) bool { return !handedOver(targets[other]) || other < name })
}

// Acknowledged are the targets of a claim that is being deleted without those of which the end is
// acknowledged, as long as several have its volume: what is left of them may be the last one.
func Acknowledged(current placementv1alpha1.Targets, done func(target string) bool) placementv1alpha1.Targets {
	if !shared(current) {
		return current
	}
	next := placementv1alpha1.Targets{}
	for name, target := range current {
		if !done(name) {
			next[name] = target
		}
	}
	return next
}

// SharesVolume says that a claim has one volume on several targets.
func SharesVolume(obj metav1.Object) bool { return shared(TargetsOf(obj.GetAnnotations())) }

func shared(targets placementv1alpha1.Targets) bool {
	return slices.ContainsFunc(targets.Names(), func(name string) bool { return len(Alike(targets, name)) > 0 })
}

// AwaitsVolume says that a claim waits on a target for the volume that it has on another one.
func AwaitsVolume(obj metav1.Object) bool {
	for _, target := range TargetsOf(obj.GetAnnotations()) {
		if target.State == placementv1alpha1.TargetStateWaiting {
			return true
		}
	}
	return false
}

func handedOver(target placementv1alpha1.Target) bool {
	return target.Volume != nil && !target.Volume.Copied
}

// holdsVolume says that a claim has a copy on a target, or has one until that is known to be gone.
func holdsVolume(target placementv1alpha1.Target) bool {
	return target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving
}

// isOne says that a claim has one volume where its unit is and goes, and not one on each.
//
//	the claim, see Source.Shared   targets that made a volume   with one that was handed over   then
//	any                            two or more                  any                             no: they differ
//	may have one volume            one or none                  any                             yes
//	any other                      one or none                  one of two that stay            yes: what is shared stays it
//	any other                      one or none                  no                              no
func isOne(current placementv1alpha1.Targets, from Source) bool {
	own, staying, shared := 0, 0, false
	for name, target := range current {
		if !target.Keeps() {
			continue
		}
		if !handedOver(target) {
			own++
		}
		if p, ok := from.Unit[name]; ok && !p.Left() {
			staying++
			shared = shared || handedOver(target)
		}
	}
	return own <= 1 && (from.Shared || staying > 1 && shared)
}

// maker is the target that makes the volume of a claim which no target has yet: the first by name
// where the unit is, else where it goes.
func maker(unit Unit) string {
	arrives := ""
	for _, name := range unit.Names() {
		switch p := unit[name]; {
		case p == PartStays:
			return name
		case !p.Left() && arrives == "":
			arrives = name
		}
	}
	return arrives
}
