package transition

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/volume"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// gives says that a claim has a copy on a physical cluster, whose volume it is to give up.
func (o Object) gives(name string) bool {
	if !o.Kind.IsClaim() {
		return false
	}
	entry, ok := o.targets()[name]
	return ok && entry.Keeps() && o.Logical.GetDeletionTimestamp() == nil && !o.stays(name)
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
			if other := o.differing(name, slices.Concat(s.Decided, on)); other != "" {
				out = append(out, fmt.Sprintf("%s on %s: %s; delete the claim once its data are safe elsewhere", o, name, HasItsOwn(other)))
			}
		}
		for _, name := range on {
			if v := o.targets()[name].Volume; v != nil && v.Copied && o.uncopied(name, *v) != "" {
				out = append(out, fmt.Sprintf("%s on %s: not all of its data were copied from %s", o, name, v.From))
			}
		}
		for _, name := range on {
			if c := o.Copies[name]; c != nil && c.Status.Volume != nil && (c.Status.Volume.Released || c.Status.Volume.Snapshot != nil) {
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
//	Removing      claims                     a volume is not released, or has  Removing
//	                                         no snapshot that it needs
//	Removing      claims                     all are                           HandingOver
//	Removing      nothing                    any                               done
//	HandingOver   claims                     one has no volume, or not all     HandingOver
//	                                         data, where it goes
//	HandingOver   claims                     all have                          Clearing
//	HandingOver   nothing                    data are missing where it goes    HandingOver
//	HandingOver   nothing                    else                              Clearing
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
		if step.Done {
			return step
		}
		if step.Waits = s.unfilled(); len(step.Waits) == 0 {
			step.Phase = placementv1alpha1.TransitionClearing
		}
	case t.Phase == placementv1alpha1.TransitionRemoving:
		if step.Waits = s.unreleased(t.From); len(step.Waits) == 0 {
			step.Phase = placementv1alpha1.TransitionHandingOver
		}
	default:
		if step.Waits = append(s.unbound(t.From), s.unfilled()...); len(step.Waits) == 0 {
			step.Phase = placementv1alpha1.TransitionClearing
		}
	}
	return step
}

func (s State) claims(from []string) bool {
	return slices.ContainsFunc(s.Objects, func(o Object) bool { return len(o.Gives(from)) > 0 })
}

// goesAlong says that an object runs on a target for nobody of the logical cluster, as who deleted what controlled it left it
// behind: nobody removes it there before the Namespace goes. A claim never does: it has data.
//
// What controls each other goes nowhere: a physical cluster may say so.
func (s State) goesAlong(o Object, name string) bool {
	s = s.indexed()
	for range s.Objects {
		if o.Kind.IsClaim() || o.targets()[name].State != placementv1alpha1.TargetObserved || o.Logical.GetDeletionTimestamp() != nil {
			return false
		}
		ref := metav1.GetControllerOfNoCopy(o.Logical)
		if ref == nil {
			return true
		}
		by, ok := s.index.byUID[ref.UID]
		if !ok {
			return false
		}
		o = s.Objects[by]
	}
	return false
}

// HasItsOwn is why a claim is handed no volume on a physical cluster where it has one with other data.
func HasItsOwn(name string) string { return "it has a volume and data of its own on " + name }

// unreleased are the claims whose volumes are still used where they are, would not be kept there, or
// have no snapshot yet from which they are to be restored.
func (s State) unreleased(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		for _, name := range o.Gives(from) {
			c := o.Copies[name]
			switch {
			case s.GivenUp[name] && o.kept(from, []string{name}):
			case c == nil || c.Status.Volume == nil:
				out = append(out, fmt.Sprintf("%s on %s: its volume is not released yet", o, name))
			case !c.Status.Volume.Released:
				out = append(out, fmt.Sprintf("%s on %s: its volume is not released yet: %s", o, name, c.Status.Volume.Reason))
			case lacksSnapshot(c.Status.Volume):
				out = append(out, fmt.Sprintf("%s on %s: its snapshot is not there yet: %s", o, name, waitsForSnapshot(c.Status.Volume, c)))
			}
		}
	}
	slices.Sort(out)
	return out
}

// lacksSnapshot says that a volume is restored elsewhere from a snapshot that is not there.
func lacksSnapshot(v *placementv1alpha1.CopyVolume) bool {
	return v.Content != nil && v.Content.Driver != "" && v.Content.Snapshot == nil
}

// waitsForSnapshot is what the snapshot at a claim waits for.
func waitsForSnapshot(v *placementv1alpha1.CopyVolume, c *placementv1alpha1.Copy) string {
	if v.Snapshot != nil && v.Snapshot.Message != "" {
		return "VolumeSnapshot " + v.Snapshot.Name + ": " + v.Snapshot.Message
	}
	return why(c)
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

// unfilled are the claims into which data were copied from where nothing is any more, and not all.
func (s State) unfilled() []string {
	var out []string
	for _, o := range s.Objects {
		for _, name := range s.Decided {
			entry, ok := o.targets()[name]
			if !ok || !entry.Keeps() || entry.Volume == nil || !entry.Volume.Copied || o.Logical.GetDeletionTimestamp() != nil || o.gives(entry.Volume.From) {
				continue
			}
			if why := o.uncopied(name, *entry.Volume); why != "" {
				out = append(out, fmt.Sprintf("%s on %s: not all of its data were copied from %s, where nothing is left of it; delete the claim to go on without them", o, name, entry.Volume.From))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Filling says that data are copied into a claim of the unit, or were, and that a stamp has to come
// which says that they count.
func (s State) Filling() bool {
	return slices.ContainsFunc(s.Objects, func(o Object) bool {
		for _, entry := range o.targets() {
			if o.Kind.IsClaim() && entry.Keeps() && entry.Volume != nil && entry.Volume.Copied {
				return true
			}
		}
		return false
	})
}

// uncopied is why a claim on a physical cluster is not known to have the data that it has
// elsewhere; empty if it has.
func (o Object) uncopied(name string, v placementv1alpha1.TargetVolume) string {
	c := o.Copies[name]
	status := placementv1alpha1.CopyStatus{}
	if c != nil {
		status = c.Status
	}
	if v.Snapshot != nil {
		return unrestored(v, status.Volume, c)
	}
	if status.Volume == nil {
		return "its data are not copied yet: " + why(c)
	}
	switch h := status.Volume.Helper; {
	case status.Volume.Filled != nil && status.Volume.Filled.From == v.From && h == nil:
		return ""
	case status.Volume.Filled != nil && h != nil:
		return "the pod that filled its volume has not ended"
	case h == nil || !h.Ready:
		return "its data are not copied yet: " + waitsFor(h, c)
	}
	if source := o.Copies[v.From]; source == nil || source.Status.Volume == nil || source.Status.Volume.Helper == nil || !source.Status.Volume.Helper.Ready {
		var h *placementv1alpha1.VolumeHelper
		if source != nil && source.Status.Volume != nil {
			h = source.Status.Volume.Helper
		}
		return "its data are not copied yet: on " + v.From + ", " + waitsFor(h, source)
	}
	progress := "its data are not copied yet"
	if t := status.Transfer; t != nil && t.From == v.From {
		progress = fmt.Sprintf("its data are being copied: %d bytes in attempt %d", t.Bytes, t.Attempts)
		if t.Message != "" {
			progress += "; before it, " + t.Message
		}
	}
	return progress
}

// unrestored is uncopied for what is restored from a snapshot. It is once the volume was mounted: until then, it
// may not even be made.
func unrestored(v placementv1alpha1.TargetVolume, has *placementv1alpha1.CopyVolume, c *placementv1alpha1.Copy) string {
	switch {
	case has == nil:
		return "it is not restored yet: " + why(c)
	case has.Filled != nil && has.Filled.From == v.From && has.Filled.Snapshot == v.Snapshot.Handle:
		if has.Helper != nil || has.Snapshot != nil {
			return "the pod that mounted its volume, or the snapshot there, is not gone"
		}
		return ""
	case has.Helper != nil:
		return "it is not restored yet: " + waitsFor(has.Helper, c)
	}
	return "it is not restored yet: " + waitsForSnapshot(has, c)
}

// otherSnapshot says that the claim on a physical cluster was not restored from the snapshot that its volume has now.
func otherSnapshot(v placementv1alpha1.TargetVolume, from *placementv1alpha1.CopyVolume) bool {
	return v.Snapshot != nil && (from.Content == nil || from.Content.Snapshot == nil || from.Content.Snapshot.Handle != v.Snapshot.Handle)
}

// waitsFor is what a helper on a physical cluster waits for.
func waitsFor(h *placementv1alpha1.VolumeHelper, c *placementv1alpha1.Copy) string {
	if h != nil && h.Message != "" {
		return "the pod " + h.Name + ": " + h.Message
	}
	if c == nil || c.Status.Message != "" || h == nil {
		return why(c)
	}
	return "the pod " + h.Name + " is not ready yet"
}

// unbound is why a claim on a physical cluster is not known to have the volume that it had on
// others; empty if it has.
func (o Object) unbound(name string, gives []string) string {
	c := o.Copies[name]
	if entry, ok := o.targets()[name]; (!ok || !entry.Keeps()) && o.NoVolume != "" {
		return o.NoVolume
	}
	if phase, _ := observed(c)["phase"].(string); !synced(c, o.Logical.GetGeneration()) || phase != "Bound" {
		return o.unboundYet(name)
	}
	if v := o.targets()[name].Volume; v != nil && v.Copied {
		switch c := o.Copies[v.From]; {
		case !slices.Contains(gives, v.From):
		case c == nil || c.Status.Volume == nil || !c.Status.Volume.Released:
			return "its volume on " + v.From + " is used again, or not known not to be"
		case otherSnapshot(*v, c.Status.Volume):
			return "the snapshot that was handed over is not there any more on " + v.From + "; take the move back to have another one made"
		}
		return o.uncopied(name, *v)
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

// unboundYet: a volume may be made only when something mounts it, and then the pod that fills it says why not.
func (o Object) unboundYet(name string) string {
	c := o.Copies[name]
	if c != nil && c.Status.Volume != nil && c.Status.Volume.Helper != nil && c.Status.Message == "" {
		return "its volume is not bound yet: " + waitsFor(c.Status.Volume.Helper, c)
	}
	if c != nil && c.Status.Volume != nil && c.Status.Volume.Snapshot != nil && c.Status.Message == "" {
		return "its volume is not bound yet: " + waitsForSnapshot(c.Status.Volume, c)
	}
	return "its volume is not bound yet: " + why(c)
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

// HandOver finds what a claim gets where its unit goes, and has no copy: one volume if it is shared, see
// share, else that which is given up elsewhere. holders are the Copies that record a volume.
func (o *Object) HandOver(holders volume.Holders, fleet volume.Fleet) {
	if o.share(holders, fleet); !o.Shared {
		o.Volume, o.NoVolume = o.handOver(holders, fleet)
	}
}

// handOver is the volume that a claim gets where its unit goes; why is the reason if it gets none
// and needs one: it has a copy where the unit leaves, and none where it goes.
func (o Object) handOver(holders volume.Holders, fleet volume.Fleet) (v *placementv1alpha1.TargetVolume, why string) {
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

// awaitsClaims says that pods of an object cannot run on a target yet: they mount a claim that waits for its volume to
// be given up where the unit leaves. What mounted it from its begin has no copy there; this has one, as it was changed
// while it moved.
func (s State) awaitsClaims(o Object, name string) bool {
	mounted, _ := workload.ClaimsOf(o.Kind, o.Logical.Object)
	if len(mounted) == 0 {
		return false
	}
	waiting := s.indexed().index.waiting[name]
	return slices.ContainsFunc(mounted, func(claim string) bool { return waiting[claim] })
}
