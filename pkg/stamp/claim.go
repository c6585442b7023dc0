package stamp

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// copied are the targets of a claim that was mirrored from a physical cluster which its unit
// leaves: what is there is its copy from now on, known by its UID. Only a copy can be given a
// volume elsewhere.
func copied(current placementv1alpha1.Targets, unit Unit) placementv1alpha1.Targets {
	out := current
	for name, target := range current {
		if target.State != placementv1alpha1.TargetObserved || target.Adopted || !unit[name].Left() {
			continue
		}
		if _, ok := unit[name]; !ok {
			continue
		}
		out = maps.Clone(out)
		out[name] = placementv1alpha1.Target{UID: target.UID}
	}
	return out
}

// claimed is what a unit wants of a claim: it is in one place at a time with its volume, and
// goes where the volume was handed over, or its data were copied. One whose volume several
// physical clusters may have, see isOne, is on all of them as soon as each has got that.
//
//	part             has a copy here   else                        then
//	any              yes, into which   its part there is neither   Removing: it is half of what is there, or less
//	                 data are copied   HandsOver nor Clears, and
//	                 from elsewhere    it has its copy
//	Stays, Arrives   yes               any                         copy, with the volume that it got as long as there
//	                                                               is another copy, see keepsVolume
//	Stays, Arrives   no                of one volume: a copy, or   Waiting; if there is a volume: copy with that
//	                                   another one makes it
//	Stays, Arrives   no                a copy where the unit       Waiting; in HandsOver, if there is a volume: copy
//	                                   leaves                      with that
//	Stays, Arrives   no                none                        copy
//	Leaves, Drains,  yes               any                         copy
//	Empties
//	Removes,         yes               any                         Draining: the volume is given up, see the
//	HandsOver                                                      syncer's claims
//	Clears           yes               a copy elsewhere            Removing
//	Clears           yes               none                        Draining: it is the only one
//	any that leaves  no                any                         Removing: none is made
//
// What data are copied into is a volume of its own from Clears on: what uses it begins then. So of two
// copies that differ one is marked in each stamp as that which does not count, and neither is removed without
// the other.
func claimed(current placementv1alpha1.Targets, from Source) placementv1alpha1.Targets {
	held, hands := false, false
	for name, target := range current {
		held = held || from.Unit[name].Left() && hasEntry(from.Unit, name) && (target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving)
		hands = hands || from.Unit[name] == PartHandsOver
	}
	one, made := isOne(current, from), anyKeeps(current)
	out := placementv1alpha1.Targets{}
	for name, p := range from.Unit {
		is, ok := current[name]
		has := ok && is.Keeps()
		target := placementv1alpha1.Target{}
		switch {
		case has && abandoned(is, current, from.Unit):
			target.State, target.Volume = placementv1alpha1.TargetStateRemoving, is.Volume
		case has && p == PartClears && !keptElsewhere(name, current):
			target.State = placementv1alpha1.TargetStateDraining
		case p.Left() && !has, p == PartClears:
			target.State = placementv1alpha1.TargetStateRemoving
		case p.Removes():
			target.State = placementv1alpha1.TargetStateDraining
		case p.Left(), has:
		case one && from.Volumes[name] != nil:
			target.Volume = from.Volumes[name]
		case one && (made || name != maker(from.Unit)):
			target.State = placementv1alpha1.TargetStateWaiting
		case held && hands && from.Volume != nil:
			target.Volume = from.Volume
		case held:
			target.State = placementv1alpha1.TargetStateWaiting
		}
		if has && target.Keeps() {
			target.UID = is.UID
		}
		if has && keepsVolume(name, current, from) && (target.Keeps() || handedOver(is)) {
			target.Volume = is.Volume
		}
		out[name] = target
	}
	for name, target := range current {
		if !hasEntry(from.Unit, name) && target.NoCopy() {
			out[name] = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
	}
	return out
}

// abandoned says that data are copied into a claim, and that this is not wanted any more: what they
// are copied from is there.
func abandoned(is placementv1alpha1.Target, current placementv1alpha1.Targets, unit Unit) bool {
	if is.Volume == nil || !is.Volume.Copied {
		return false
	}
	source, ok := current[is.Volume.From]
	p := unit[is.Volume.From]
	return ok && source.Keeps() && p != PartHandsOver && p != PartClears
}

// keepsVolume says that the volume of a claim came from elsewhere, and that this counts.
//
//	the volume     where it came from, or else        counts
//	handed over    has an entry                       yes
//	handed over    another target has it, too         yes
//	handed over    another target waits for it        yes
//	handed over    else                               no: this is the only one that has it
//	copied         its part is Clears                 no: the copy is what counts from now on
//	copied         else, also if it is given up       yes: it may not have all
func keepsVolume(name string, current placementv1alpha1.Targets, from Source) bool {
	is := current[name]
	switch {
	case is.Volume == nil:
		return false
	case is.Volume.Copied:
		return from.Unit[is.Volume.From] != PartClears
	}
	waits := false
	for other, target := range current {
		waits = waits || other != name && target.State == placementv1alpha1.TargetStateWaiting
	}
	return hasEntry(current, is.Volume.From) || len(Alike(current, name)) > 0 || from.Shared && waits
}

func anyKeeps(current placementv1alpha1.Targets) bool { return keptElsewhere("", current) }

func keptElsewhere(name string, current placementv1alpha1.Targets) bool {
	for other, target := range current {
		if other != name && target.Keeps() {
			return true
		}
	}
	return false
}

// Written is the content of an object without what a syncer wrote: the volume of a claim that was
// mirrored.
func Written(kind workload.Kind, obj *unstructured.Unstructured) map[string]any {
	if !kind.IsClaim() || !WasMirrored(obj) {
		return obj.Object
	}
	out := obj.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "spec", "volumeName")
	return out.Object
}

// waitsForVolumes is what a physical cluster does with an object that mounts claims, and has
// no copy there, before these have their volumes.
func waitsForVolumes(p Part) placementv1alpha1.TargetState {
	if p.Left() {
		return placementv1alpha1.TargetStateRemoving
	}
	return placementv1alpha1.TargetStateWaiting
}

// PhaseRemoves says that what a unit leaves is removed in a phase.
func PhaseRemoves(phase placementv1alpha1.TransitionPhase) bool {
	switch phase {
	case placementv1alpha1.TransitionRemoving, placementv1alpha1.TransitionHandingOver, placementv1alpha1.TransitionClearing:
		return true
	}
	return false
}

// WasMirrored says that a claim was mirrored, and became a copy.
func WasMirrored(obj metav1.Object) bool {
	return obj.GetAnnotations()[placementv1alpha1.MirroredAnnotation] != ""
}
