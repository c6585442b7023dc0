package transition

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/volume"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// gives says that a claim has a copy on a physical cluster, whose volume it is to give up.
func (o Object) gives(name string) bool {
	entry, ok := o.targets()[name]
	return o.Kind.IsClaim() && ok && entry.Keeps() && o.Logical.GetDeletionTimestamp() == nil && !o.stays(name)
}

// Gives are the physical clusters among some whose volume a claim gives up.
func (o Object) Gives(from []string) []string {
	return slices.DeleteFunc(slices.Clone(from), func(name string) bool { return !o.gives(name) })
}

// unknown are the claims whose volumes cannot be handed over, by the reason: nothing is
// stopped before all can.
func (s State) unknown(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		on := o.Gives(from)
		if len(on) > 0 && o.NoVolume != "" {
			out = append(out, fmt.Sprintf("%s on %s: %s", o, on[0], o.NoVolume))
		}
		for _, name := range on {
			if c := o.Copies[name]; c != nil && c.Status.Volume != nil && c.Status.Volume.Released {
				out = append(out, fmt.Sprintf("%s on %s: what was said of its volume in an earlier move has to be taken back first", o, name))
			}
		}
	}
	return out
}

// removed is what follows in the phases in which what is left goes.
//
//	phase         there is left              else                              then
//	Removing      something but claims       any                               Removing
//	Removing      claims                     a volume is not released          Removing
//	Removing      claims                     all are                           HandingOver
//	Removing      nothing                    any                               done
//	HandingOver   claims                     one has no volume where it goes   HandingOver
//	HandingOver   claims                     all have                          Clearing
//	HandingOver   nothing                    any                               Clearing
//	Clearing      something                  any                               Clearing
//	Clearing      nothing                    any                               done
func (s State) removed(t *placementv1alpha1.Transition) Step {
	step := Step{Phase: t.Phase, Waits: s.left(t)}
	switch {
	case len(step.Waits) > 0:
	case t.Phase == placementv1alpha1.TransitionClearing:
		step.Done = true
	case !s.claims(t.From):
		step.Done = t.Phase == placementv1alpha1.TransitionRemoving
		if !step.Done {
			step.Phase = placementv1alpha1.TransitionClearing
		}
	case t.Phase == placementv1alpha1.TransitionRemoving:
		if step.Waits = s.unreleased(t.From); len(step.Waits) == 0 {
			step.Phase = placementv1alpha1.TransitionHandingOver
		}
	default:
		if step.Waits = s.unbound(t.From); len(step.Waits) == 0 {
			step.Phase = placementv1alpha1.TransitionClearing
		}
	}
	return step
}

func (s State) claims(from []string) bool {
	return slices.ContainsFunc(s.Objects, func(o Object) bool { return len(o.Gives(from)) > 0 })
}

// unreleased are the claims whose volumes are still used where they are, or would not be kept
// there.
func (s State) unreleased(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		for _, name := range o.Gives(from) {
			c := o.Copies[name]
			switch {
			case c == nil || c.Status.Volume == nil:
				out = append(out, fmt.Sprintf("%s on %s: its volume is not released yet", o, name))
			case !c.Status.Volume.Released:
				out = append(out, fmt.Sprintf("%s on %s: its volume is not released yet: %s", o, name, c.Status.Volume.Reason))
			}
		}
	}
	slices.Sort(out)
	return out
}

// unbound are the claims that have not got their volumes where the unit goes.
func (s State) unbound(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		gives := o.Gives(from)
		if len(gives) == 0 {
			continue
		}
		for _, name := range s.Decided {
			if why := o.unbound(name, gives); why != "" {
				out = append(out, fmt.Sprintf("%s on %s: %s", o, name, why))
			}
		}
	}
	slices.Sort(out)
	return out
}

// unbound is why a claim on a physical cluster is not known to have the volume that it had on
// others; empty if it has.
func (o Object) unbound(name string, gives []string) string {
	c := o.Copies[name]
	if entry, ok := o.targets()[name]; (!ok || !entry.Keeps()) && o.NoVolume != "" {
		return o.NoVolume
	}
	if phase, _ := observed(c)["phase"].(string); !synced(c, o.Logical.GetGeneration()) || phase != "Bound" {
		return "its volume is not bound yet: " + why(c)
	}
	got := source(c)
	if got == nil {
		return "its volume is not known yet"
	}
	for _, from := range gives {
		if had := source(o.Copies[from]); had != nil && (had.Driver != got.Driver || had.Handle != got.Handle) {
			return "it is bound to another volume than on " + from
		}
	}
	return ""
}

func source(c *placementv1alpha1.Copy) *placementv1alpha1.VolumeSource {
	if c == nil || c.Status.Volume == nil {
		return nil
	}
	return c.Status.Volume.Source
}

// runsWithClaim says that an object ends by itself, and mounts a claim until then.
func runsWithClaim(o Object) bool {
	return workload.RunsOf(o.Kind, o.Logical.Object) == workload.RunsToEnd && workload.MountsClaims(o.Kind, o.Logical.Object)
}

// HandOver is the volume that a claim gets where its unit goes; why is the reason if it gets none
// and needs one: it has a copy where the unit leaves, and none where it goes. holders are the
// Copies that record a volume.
func (o Object) HandOver(holders func(*placementv1alpha1.VolumeSource) []*placementv1alpha1.Copy, fleet volume.Fleet) (v *placementv1alpha1.TargetVolume, why string) {
	var from, to []string
	for _, name := range o.Unit.Names() {
		if o.Unit[name].Left() {
			from = append(from, name)
		} else {
			to = append(to, name)
		}
	}
	if !o.Kind.IsClaim() || len(o.Gives(from)) == 0 {
		return nil, ""
	}
	if len(to) != 1 {
		return nil, fmt.Sprintf("it has one volume, and goes to %d physical clusters", len(to))
	}
	if entry, ok := o.targets()[to[0]]; ok && entry.Keeps() {
		return nil, ""
	}
	return volume.Hand(from, to[0], o.Copies, holders, fleet)
}

// takesClaims says that the claims that an object makes go with it.
func takesClaims(o Object) bool {
	when, _, _ := unstructured.NestedString(o.Logical.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	return o.Kind.Semantics == workload.StatefulSetSemantics && when == "Delete" && len(workload.VolumeClaims(o.Kind, o.Logical.Object)) > 0
}
