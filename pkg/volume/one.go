package volume

import (
	"cmp"
	"fmt"
	"slices"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Apart is why a claim has a volume of its own on each of several physical clusters; empty if it has
// one on all of them.
//
//	access modes                       class on them                         then
//	none, or one that is not of many   any                                   apart: one place at a time mounts it
//	of many only                       is not Shared on one of them, or in   apart
//	                                   another backend, or of another driver
//	of many only                       Shared, of one backend and driver     one
func Apart(claim Claim, on []string, fleet Fleet) string {
	switch {
	case !claim.Many:
		return "not all of its access modes are ReadWriteMany or ReadOnlyMany"
	case len(on) == 0:
		return ""
	}
	for _, name := range on[1:] {
		if why := Refusal(claim, on[0], name, fleet); why != "" {
			return why
		}
	}
	if strategy := entry(fleet, on[0], claim.Class).Strategy; strategy != fleetv1alpha1.VolumesShared {
		return fmt.Sprintf("volumes of class %s are %s on %s, and not Shared", claim.Class, strategy, on[0])
	}
	return ""
}

// Also is the volume that a claim gets on a physical cluster from one that has it and goes on with it;
// if it gets none, why says the reason. targets are those of the claim, and has are the physical
// clusters with a copy, the one that made the volume first.
//
// The handle is what the first one that was handed over had: a physical cluster that says another
// one later is not believed, so that who has a volume by our word cannot name one to the next.
func Also(targets placementv1alpha1.Targets, has []string, to string, copies map[string]*placementv1alpha1.Copy, holders Holders, fleet Fleet) (*placementv1alpha1.TargetVolume, string) {
	agreed, why := agreed(targets), ""
	for _, name := range has {
		v, reason := Hand([]string{name}, to, copies, holders, fleet)
		switch {
		case v == nil && reason == "", v != nil && v.Copied:
			reason = "its volume is not known yet"
		case v != nil && agreed != nil && (agreed.Driver != v.Source.Driver || agreed.Handle != v.Source.Handle):
			reason = fmt.Sprintf("%s says that it has another volume than the one that others have", name)
		case v != nil:
			return v, ""
		}
		why = cmp.Or(why, reason)
	}
	return nil, cmp.Or(why, "its volume is not known yet")
}

// agreed is the volume that targets of a claim were handed over; nil: none was.
func agreed(targets placementv1alpha1.Targets) *placementv1alpha1.VolumeSource {
	names := targets.Names()
	i := slices.IndexFunc(names, func(name string) bool { return targets[name].Volume != nil && !targets[name].Volume.Copied })
	if i < 0 {
		return nil
	}
	return &targets[names[i]].Volume.Source
}
