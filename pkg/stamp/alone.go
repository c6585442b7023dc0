package stamp

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// isAlone says that an object cannot be divided and runs in one place of a division: a CronJob, whose
// runs are one each, or a Job whose pods are numbered. Of a CronJob that is known without its content.
func isAlone(kind workload.Kind, wish *Wish) bool {
	return kind.Semantics == workload.CronJobSemantics || wish != nil && wish.Alone
}

// WaitsAlone says that such an object is removed somewhere first.
func WaitsAlone(kind workload.Kind, wish *Wish, obj metav1.Object) bool {
	if !isAlone(kind, wish) {
		return false
	}
	for _, target := range TargetsOf(obj.GetAnnotations()) {
		if target.State == placementv1alpha1.TargetStateRemoving {
			return true
		}
	}
	return false
}

// alone has an object run as a whole in one of the places of a division, and never in two at a time.
//
//	the object         a place              then
//	a Job that began   any                  as it is: it ends where it was begun
//	any                that the unit leaves as it is wanted there anyhow
//	any                that is chosen       copy; Waiting as long as another place has a copy, or
//	                                        removes it
//	a Job              any other            Finished, once it begins where it is chosen: it ends there
//	any                any other            Removing: none is made, and what is there goes
func alone(rule *placementv1alpha1.DecidedDivision, wish *Wish, unit Unit, current, wanted placementv1alpha1.Targets) {
	runs := wish != nil && wish.Runs
	if runs && hasCopy(current, "") {
		keepParts(current, wanted)
		return
	}
	places := placementv1alpha1.Targets{}
	for name, target := range wanted {
		if p, ok := unit[name]; ok && !p.Left() && (target.Keeps() || target.State == placementv1alpha1.TargetStateWaiting) {
			places[name] = target
		}
	}
	chosen := placeOf(rule, wish, current, places)
	for name, target := range places {
		switch {
		case name == chosen && !(current[name].Keeps() && hasEntry(current, name)) && hasCopy(current, name):
			target.State = placementv1alpha1.TargetStateWaiting
		case name == chosen:
		case runs && wanted[chosen].Keeps():
			target = placementv1alpha1.Target{State: placementv1alpha1.TargetStateFinished}
		default:
			target = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
		wanted[name] = target
	}
}

// hasCopy says that an object has a copy somewhere, but for one place, or had one until it is known to
// be gone.
func hasCopy(current placementv1alpha1.Targets, but string) bool {
	for name, target := range current {
		if name != but && (target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving) {
			return true
		}
	}
	return false
}

// placeOf chooses where an object runs: where the one replica of something would be that is divided. What
// has a copy, or waits to get one, is its place as long as the division permits that.
func placeOf(rule *placementv1alpha1.DecidedDivision, wish *Wish, current, places placementv1alpha1.Targets) string {
	present := placementv1alpha1.Targets{}
	for _, has := range []func(placementv1alpha1.Target) bool{
		placementv1alpha1.Target.Keeps,
		func(t placementv1alpha1.Target) bool { return t.State == placementv1alpha1.TargetStateWaiting },
	} {
		for name := range places {
			if target, ok := current[name]; ok && has(target) {
				present[name] = placementv1alpha1.Target{Replicas: ptr.To[int32](1)}
			}
		}
		if len(present) > 0 {
			break
		}
	}
	one := Wish{Replicas: 1}
	if wish != nil {
		one.Requests = wish.Requests
	}
	shares := sharesOf(rule, one, present, places)
	unnamed := func(name string) bool { _, named := shares[name]; return !named }
	if i := slices.IndexFunc(present.Names(), unnamed); i >= 0 {
		return present.Names()[i] // the division is of before: what is there stays until there is another one
	}
	for _, name := range places.Names() {
		if shares[name] > 0 {
			return name
		}
	}
	if names := places.Names(); len(names) > 0 {
		return names[0]
	}
	return ""
}
