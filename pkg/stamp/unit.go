package stamp

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Part is what a physical cluster is to a unit.
type Part string

const (
	// PartStays: the unit is there, or goes there at once. What is decided and not in a
	// transition.
	PartStays Part = ""
	// PartArrives: the unit gets copies there; they receive no traffic yet.
	PartArrives Part = "Arrives"
	// PartLeaves: the unit goes on there until it is replaced.
	PartLeaves Part = "Leaves"
	// PartDrains: as Leaves, and receives no traffic any more, or never did.
	PartDrains Part = "Drains"
	// PartRemoves: what is there goes.
	PartRemoves Part = "Removes"
)

// Unit is where a unit is and goes: physical clusters with their parts. nil says that it
// is not decided.
type Unit map[string]Part

// UnitOf is the unit of a placement.
func UnitOf(p *placementv1alpha1.Placement) Unit {
	if p.Spec.Decision == nil {
		return nil
	}
	unit := UnitOn(Decided(p).Names())
	t := p.Spec.Transition
	if t == nil {
		return unit
	}
	left, arrives := PartLeaves, PartStays
	switch t.Phase {
	case placementv1alpha1.TransitionStarting:
		arrives = PartArrives
	case placementv1alpha1.TransitionDraining:
		left = PartDrains
	case placementv1alpha1.TransitionRemoving:
		left = PartRemoves
	}
	for _, name := range t.To {
		if _, decided := unit[name]; decided {
			unit[name] = arrives
		}
	}
	for _, name := range t.From {
		if _, decided := unit[name]; decided { // the decision counts
			continue
		}
		if unit[name] = left; left == PartLeaves && slices.Contains(t.Withdrawn, name) {
			unit[name] = PartDrains
		}
	}
	return unit
}

// UnitOn is a unit that stays on physical clusters.
func UnitOn(physicalClusters []string) Unit {
	unit := Unit{}
	for _, name := range physicalClusters {
		unit[name] = PartStays
	}
	return unit
}

// Names are the physical clusters, sorted.
func (u Unit) Names() []string {
	names := make([]string, 0, len(u))
	for name := range u {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Settled says that no part of the unit is on its way.
func (u Unit) Settled() bool {
	for _, p := range u {
		if p != PartStays {
			return false
		}
	}
	return true
}

// Waits says that an object waits to be started somewhere, or is removed somewhere
// first.
func Waits(obj metav1.Object) bool {
	for _, target := range TargetsOf(obj.GetAnnotations()) {
		if target.NoCopy() || target.State == placementv1alpha1.TargetStateRemoving {
			return true
		}
	}
	return false
}

// left says that the unit leaves it.
func (p Part) left() bool { return p == PartLeaves || p == PartDrains || p == PartRemoves }

// Decided are the targets of the decision of a placement; nil if it is undecided.
func Decided(p *placementv1alpha1.Placement) placementv1alpha1.Targets {
	if p.Spec.Decision == nil {
		return nil
	}
	names := make([]string, 0, len(p.Spec.Decision.PhysicalClusters))
	for _, c := range p.Spec.Decision.PhysicalClusters {
		names = append(names, c.Name)
	}
	return On(names)
}

// On are targets that keep a copy on each of the physical clusters.
func On(physicalClusters []string) placementv1alpha1.Targets {
	targets := placementv1alpha1.Targets{}
	for _, name := range physicalClusters {
		targets[name] = placementv1alpha1.Target{}
	}
	return targets
}

// BelongsTo reports whether a placement is about the Namespace with that UID, and not
// about one of the same name before it.
func BelongsTo(p *placementv1alpha1.Placement, namespace types.UID) bool {
	uid := UnitUID(p)
	return uid == "" || uid == namespace
}

// UnitUID is the UID of the Namespace that a placement was made for; empty if it does
// not say.
func UnitUID(p *placementv1alpha1.Placement) types.UID {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return owner.UID
	}
	return ""
}
