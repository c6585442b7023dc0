package stamp

import (
	"slices"
	"strings"

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
	// PartEmpties: objects that came from elsewhere have copies there, which serve until
	// they are replaced. Nothing comes there.
	PartEmpties Part = "Empties"
	// PartRemoves: what is there goes, but claims: these give their volumes up.
	PartRemoves Part = "Removes"
	// PartHandsOver: as Removes; claims get the volumes where the unit goes.
	PartHandsOver Part = "HandsOver"
	// PartClears: as Removes, and claims go, too.
	PartClears Part = "Clears"
)

// strength orders the parts of several units on one physical cluster: traffic before
// copies, and copies before none.
var strength = map[Part]int{PartStays: 5, PartLeaves: 4, PartEmpties: 3, PartArrives: 2, PartDrains: 1}

// Merge is where what belongs to several units is and goes: the strongest part of theirs
// on each physical cluster. Undecided units have no say; nil if none has.
//
//	Stays > Leaves > Empties > Arrives > Drains > Removes, HandsOver, Clears
//
// but where one arrives and another one empties, what serves has to be there: Leaves.
func Merge(units ...Unit) Unit {
	var out Unit
	for _, unit := range units {
		if unit == nil {
			continue
		}
		if out == nil {
			out = Unit{}
		}
		for name, p := range unit {
			was, ok := out[name]
			switch {
			case !ok:
				out[name] = p
			case was == PartArrives && p == PartEmpties, was == PartEmpties && p == PartArrives:
				out[name] = PartLeaves
			case strength[p] > strength[was]:
				out[name] = p
			}
		}
	}
	return out
}

// Unit is where a unit is and goes: physical clusters with their parts. nil says that it
// is not decided.
type Unit map[string]Part

// UnitOf is the unit of a placement.
func UnitOf(p *placementv1alpha1.Placement) Unit {
	if p.Spec.Decision == nil {
		return nil
	}
	unit := make(Unit, len(p.Spec.Decision.PhysicalClusters))
	for i := range p.Spec.Decision.PhysicalClusters {
		unit[p.Spec.Decision.PhysicalClusters[i].Name] = PartStays
	}
	t := p.Spec.Transition
	if t == nil {
		return unit
	}
	left, arrives := PartLeaves, PartStays
	switch t.Phase {
	case placementv1alpha1.TransitionStarting:
		arrives = PartArrives
		if t.Cause == placementv1alpha1.CauseLeftover {
			left = PartEmpties
		}
	case placementv1alpha1.TransitionDraining:
		left = PartDrains
	case placementv1alpha1.TransitionRemoving:
		left = PartRemoves
	case placementv1alpha1.TransitionHandingOver:
		left = PartHandsOver
	case placementv1alpha1.TransitionClearing:
		left = PartClears
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
		if unit[name] = left; !left.Removes() && slices.Contains(t.Withdrawn, name) {
			unit[name] = PartDrains
		}
	}
	return unit
}

// PartOn is what a physical cluster is to the unit of a placement, as UnitOf has it: for who looks at the placements of
// a whole fleet.
func PartOn(p *placementv1alpha1.Placement, physicalCluster string) (part Part, ok bool) {
	if p.Spec.Decision == nil || p.Spec.Transition != nil {
		part, ok = UnitOf(p)[physicalCluster]
		return part, ok
	}
	for i := range p.Spec.Decision.PhysicalClusters {
		if p.Spec.Decision.PhysicalClusters[i].Name == physicalCluster {
			return PartStays, true
		}
	}
	return "", false
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

// Left says that the unit leaves it.
func (p Part) Left() bool {
	return p == PartLeaves || p == PartEmpties || p == PartDrains || p.Removes()
}

// Removes says that what is there goes.
func (p Part) Removes() bool { return p == PartRemoves || p == PartHandsOver || p == PartClears }

// handsVolumes says that a unit leaves a physical cluster where its claims have not given up their
// volumes to others yet: what mounts them begins nowhere else.
func (u Unit) handsVolumes() bool {
	for _, p := range u {
		if p.Left() && p != PartClears {
			return true
		}
	}
	return false
}

// Outside says that an object has a copy where its unit is not: it came from another one,
// or was stamped by a server that was behind.
func (u Unit) Outside(obj metav1.Object) bool {
	return u != nil && u.outside(TargetsOf(obj.GetAnnotations()))
}

func (u Unit) outside(targets placementv1alpha1.Targets) bool {
	for name, target := range targets {
		if _, ok := u[name]; !ok && target.Keeps() {
			return true
		}
	}
	return false
}

// Within says that an object, the Namespace, is wherever a unit is to have copies.
func (u Unit) Within(obj metav1.Object) bool {
	targets := TargetsOf(obj.GetAnnotations())
	for name, p := range u {
		if target, ok := targets[name]; !p.Left() && !(ok && target.Keeps()) {
			return false
		}
	}
	return true
}

// Units are the names of the units by which a placed object was stamped last.
func Units(obj metav1.Object) []string {
	if names := obj.GetAnnotations()[placementv1alpha1.UnitAnnotation]; names != "" {
		return strings.Split(names, ",")
	}
	return []string{placementv1alpha1.NamespaceUnit}
}

// IsIn says that an object was stamped last by these units, sorted.
func IsIn(obj metav1.Object, units []string) bool {
	return obj.GetAnnotations()[placementv1alpha1.UnitAnnotation] == unitsValue(units)
}

// Join notes by which units an object is stamped.
func Join(obj metav1.Object, units []string) {
	annotate(obj, placementv1alpha1.UnitAnnotation, unitsValue(units))
}

func unitsValue(units []string) string {
	if len(units) == 1 && units[0] == placementv1alpha1.NamespaceUnit {
		return ""
	}
	return strings.Join(units, ",")
}

// Kept are the physical clusters on which an object has a copy that stays, sorted.
func Kept(obj metav1.Object) []string {
	targets := TargetsOf(obj.GetAnnotations())
	return slices.DeleteFunc(targets.Names(), func(name string) bool { return !targets[name].Keeps() })
}

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

// UnitUID is the UID of the Namespace of which a placement is a unit; empty if it does
// not say.
func UnitUID(p *placementv1alpha1.Placement) types.UID {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return owner.UID
	}
	return ""
}
