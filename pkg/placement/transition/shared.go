package transition

import (
	"fmt"
	"slices"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/volume"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Apart is why a claim has, or would have, a volume of its own on each of some physical clusters; empty
// if it has one on all of them.
//
//	the claim                            then
//	a StatefulSet made it                apart: it is about one pod
//	may not have one, see volume.Apart   apart
//	has volumes of its own on several    apart: they differ already
//	else                                 one
func (o Object) Apart(on []string, fleet volume.Fleet) string {
	if stamp.Mirrored(o.Logical) || stamp.WasMirrored(o.Logical) {
		return "a controller on a physical cluster made it"
	}
	if why := volume.Apart(volume.ClaimOf(o.Logical.Object), on, fleet); why != "" {
		return why
	}
	if kept := stamp.Kept(o.Logical); len(kept) > 1 && !o.kept(nil, kept) {
		return "it had one on each before they could share one"
	}
	return ""
}

// share finds whether a claim has one volume on all physical clusters of its unit, and what it gets on
// those that have no copy.
func (o *Object) share(holders volume.Holders, fleet volume.Fleet) {
	names := o.Unit.Names()
	if !o.Kind.IsClaim() || len(names) < 2 || o.Logical.GetDeletionTimestamp() != nil || o.Apart(names, fleet) != "" {
		return
	}
	o.Shared = true
	o.Volumes, o.NoVolume = o.also(holders, fleet)
}

// also are the volumes that a claim gets where it has no copy, and why it gets none where it waits.
func (o Object) also(holders volume.Holders, fleet volume.Fleet) (volumes map[string]*placementv1alpha1.TargetVolume, waits string) {
	targets := o.targets()
	has := stamp.Kept(o.Logical)
	slices.SortStableFunc(has, func(a, b string) int { return rank(targets[a]) - rank(targets[b]) })
	for _, name := range o.Unit.Names() {
		if entry, ok := targets[name]; len(has) == 0 || ok && !entry.NoCopy() || o.Unit[name].Left() {
			continue
		}
		v, why := volume.Also(targets, has, name, o.Copies, holders, fleet)
		switch {
		case v == nil:
			waits = why
		case volumes == nil:
			volumes = map[string]*placementv1alpha1.TargetVolume{name: v}
		default:
			volumes[name] = v
		}
	}
	return volumes, waits
}

// Awaits is why a claim has not got the volume that it has on others on each physical cluster where it waits for
// it; empty if it waits nowhere, or gets it now.
func (o Object) Awaits(holders volume.Holders, fleet volume.Fleet) string {
	if !stamp.AwaitsVolume(o.Logical) {
		return ""
	}
	_, why := o.also(holders, fleet)
	return why
}

// rank puts the target that made the volume of a claim before those that were handed it.
func rank(target placementv1alpha1.Target) int {
	if target.Volume == nil {
		return 0
	}
	return 1
}

// kept says of a claim that the volume which it has on each of some physical clusters is on another one, too, that is
// none of these without.
func (o Object) kept(without, on []string) bool {
	targets := o.targets()
	return len(on) > 0 && !slices.ContainsFunc(on, func(name string) bool {
		return !slices.ContainsFunc(stamp.Alike(targets, name), func(other string) bool {
			return !slices.Contains(without, other) && targets[other].Keeps()
		})
	})
}

// Differs says that a claim has a volume of its own on each of two physical clusters: of neither the other one takes it.
func (o Object) Differs(a, b string) bool {
	targets := o.targets()
	own := func(name string) bool {
		return targets[name].Volume == nil && slices.Contains(stamp.Kept(o.Logical), name)
	}
	return o.Kind.IsClaim() && a != b && own(a) && own(b)
}

// differing is the first physical cluster among some where a claim has a volume of its own, and has one of its own
// on name, too; empty if there is none.
func (o Object) differing(name string, among []string) string {
	if i := slices.IndexFunc(among, func(other string) bool { return o.Differs(name, other) }); i >= 0 {
		return among[i]
	}
	return ""
}

// notShared are the claims which have one volume, and have not got it everywhere where the unit goes: that is
// waited for before anything is stopped where it is.
func (s State) notShared(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		gives := o.Gives(from)
		if !o.Shared || len(gives) == 0 {
			continue
		}
		for _, name := range s.Decided {
			if entry, ok := o.targets()[name]; !ok || !entry.Keeps() {
				continue // see unknown
			}
			if why := o.unbound(name, gives); why != "" {
				out = append(out, fmt.Sprintf("%s on %s: %s", o, name, why))
			}
		}
	}
	return out
}

// Opens says that an object which mounts claims may begin where its unit goes while it runs where it was:
// each of them has one volume, and a copy wherever the unit goes. claims are those of its namespace.
func Opens(kind workload.Kind, obj map[string]any, unit stamp.Unit, claims []Object) bool {
	mounted, own := workload.ClaimsOf(kind, obj)
	if own || len(mounted) == 0 {
		return false
	}
	return !slices.ContainsFunc(mounted, func(name string) bool {
		return !slices.ContainsFunc(claims, func(claim Object) bool { return claim.Logical.GetName() == name && claim.open(unit) })
	})
}

func (o Object) open(unit stamp.Unit) bool {
	targets := o.targets()
	if !o.Shared {
		return false
	}
	for name, p := range unit {
		if entry, ok := targets[name]; !p.Left() && !(ok && entry.Keeps()) {
			return false
		}
	}
	return true
}
