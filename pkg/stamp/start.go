package stamp

import (
	"slices"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Scaling is how an autoscaler scales an object.
type Scaling struct {
	// Wish is what the object itself says: spec.replicas.
	Wish int32
	// Scaled says that an autoscaler of its namespace scales it.
	Scaled bool
	// Runs is what a copy of it needs to have as many as run where its unit leaves; nil: that is
	// not known, or not to be looked at now.
	Runs *int32
	// Waits are the targets to which the autoscaler is to come with the traffic. Where the unit stays, and it has no copy as
	// yet, what it scales was made there while the unit was already about to leave another place.
	Waits []string
}

// IsAutoscaler says that objects of a kind scale others.
func IsAutoscaler(kind workload.Kind) bool {
	return kind.Role == workload.Placed && len(kind.Scales) > 0
}

// Scalers are the autoscalers of a namespace by what they scale, of which each has one: the first in the order
// in which they were read. They are shared, and not changed. Nil says that they are not known.
type Scalers map[scaled]Other

// scaled is what an autoscaler names.
type scaled struct{ group, kind, name string }

// ScalersOf finds them among others; nil if these are not known.
func ScalersOf(others []Other) Scalers {
	if others == nil {
		return nil
	}
	out := Scalers{}
	for _, o := range others {
		if !IsAutoscaler(o.Kind) || o.GetDeletionTimestamp() != nil {
			continue
		}
		group, kind, name := workload.Scaled(o.Kind, o.Object)
		if by := (scaled{group, kind, name}); name != "" {
			if _, has := out[by]; !has {
				out[by] = o
			}
		}
	}
	return out
}

// Of is the autoscaler of an object; ok is false if none scales it.
func (s Scalers) Of(kind workload.Kind, name string) (_ Other, ok bool) {
	by, ok := s[scaled{kind.Group, kind.Kind, name}]
	return by, ok
}

// StartsScaled says that what an object of a kind with these targets begins with elsewhere may
// follow from what an autoscaler made of it: its unit leaves where it is, or did.
func StartsScaled(kind workload.Kind, unit Unit, current placementv1alpha1.Targets) bool {
	if kind.Role != workload.Placed || len(kind.Replicas) == 0 || inParts(current) {
		return false
	}
	for _, target := range current {
		if target.Start != nil {
			return true
		}
	}
	return len(Serving(unit, current)) > 0
}

// Serving are the physical clusters that a unit leaves, and on which an object goes on until it is
// replaced.
func Serving(unit Unit, current placementv1alpha1.Targets) []string {
	var out []string
	for _, name := range current.Names() {
		if p := unit[name]; current[name].Keeps() && (p == PartLeaves || p == PartEmpties) {
			out = append(out, name)
		}
	}
	return out
}

// inParts says that an object is divided: what begins where is another matter then.
func inParts(current placementv1alpha1.Targets) bool {
	for _, target := range current {
		if target.Replicas != nil || target.Ordinals != nil {
			return true
		}
	}
	return false
}

// started says on wanted targets with how many replicas copies begin that an autoscaler scales, see
// start.
func started(scaling *Scaling, unit Unit, current, wanted placementv1alpha1.Targets) {
	if inParts(current) {
		return
	}
	leaves := len(Serving(unit, current)) > 0
	for name, target := range wanted {
		if !target.Keeps() && target.State != placementv1alpha1.TargetStateWaiting {
			continue
		}
		has := current[name]
		begun := hasEntry(current, name) && has.Keeps()
		arrives := leaves && (unit[name] == PartArrives || unit[name] == PartStays && (!begun || scaling != nil && slices.Contains(scaling.Waits, name)))
		target.Start = start(scaling, has.Start, arrives, begun, unit.Settled())
		wanted[name] = target
	}
}

// start is what a copy begins with, beside what its target says already.
//
//	scaling     the target            what runs     then
//	not known   any                   any           as it is
//	not scaled  any                   any           nothing: it begins with what it wants
//	scaled      arrives, or waits     known         that
//	            where it stays, not
//	            begun
//	scaled      the same, begun       known         that, but never less than before: what runs here is
//	                                                asked for elsewhere, and comes back by the autoscaler
//	scaled      any other, its unit   any           as it is, or what is wanted meanwhile if that is more
//	            is on its way
//	scaled      any other, settled    any           as it is, as long as the same number is wanted
//
// Where that is what the object wants, nothing is said.
func start(scaling *Scaling, has *placementv1alpha1.TargetStart, arrives, begun, settled bool) *placementv1alpha1.TargetStart {
	switch {
	case scaling == nil:
		return has
	case !scaling.Scaled:
		return nil
	case settled && has != nil && has.Wish != scaling.Wish:
		return nil
	}
	n := scaling.Wish
	if has != nil {
		n = has.Replicas
		if has.Wish != scaling.Wish && n > 0 {
			n = max(n, scaling.Wish)
		}
	}
	if runs := scaling.Runs; arrives && runs != nil && (!begun || *runs > n) {
		n = *runs
	}
	if n == scaling.Wish {
		return nil
	}
	return &placementv1alpha1.TargetStart{Replicas: n, Wish: scaling.Wish}
}

// heldBack has autoscalers wait: where no traffic comes yet they would take away what was started
// there to replace what runs elsewhere.
//
//	an autoscaler, where its unit   on the target it     then
//	leaves another place, which
//	serves as yet
//	arrives, or stays               has no copy          Waiting
//	arrives                         has one              Removing: it served there before
//	stays                           has one              as it is: traffic comes there
func heldBack(unit Unit, current, wanted placementv1alpha1.Targets) {
	if len(Serving(unit, wanted)) == 0 {
		return
	}
	for name, target := range wanted {
		begun := hasEntry(current, name) && current[name].Keeps()
		switch p := unit[name]; {
		case !target.Keeps() || p.Left() || begun && p != PartArrives:
			continue
		case begun:
			target.State = placementv1alpha1.TargetStateRemoving
		default:
			target.State = placementv1alpha1.TargetStateWaiting
		}
		wanted[name] = target
	}
}

// StartOn is how many replicas of an object a copy on a target begins with, of those that it wants.
func StartOn(target placementv1alpha1.Target, wish int64) int64 {
	if s := target.Start; s != nil && int64(s.Wish) == wish {
		return int64(s.Replicas)
	}
	return wish
}
