package volume

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Fleet finds a physical cluster; nil if there is none.
type Fleet func(name string) *fleetv1alpha1.PhysicalCluster

// Refusal is why volumes of a class are not handed over from one physical cluster to another
// one; empty if they are.
//
//	class on from  on to                       then
//	no name        any                         refused: it is not known which one it is
//	Refuse         any                         refused
//	Shared         Refuse                      refused
//	Shared         Shared, another backend or  refused
//	               driver
//	Shared         Shared, the same            handed over
func Refusal(class, from, to string, fleet Fleet) string {
	if class == "" {
		return "the claim names no storage class"
	}
	there, here := entry(fleet, from, class), entry(fleet, to, class)
	switch {
	case there.Strategy != fleetv1alpha1.VolumesShared:
		return fmt.Sprintf("volumes of class %s do not move from %s", class, from)
	case here.Strategy != fleetv1alpha1.VolumesShared:
		return fmt.Sprintf("volumes of class %s do not move to %s", class, to)
	case here.Backend != there.Backend || here.Driver != there.Driver:
		return fmt.Sprintf("%s and %s have volumes of class %s in different backends", from, to, class)
	}
	return ""
}

func entry(fleet Fleet, name, class string) fleetv1alpha1.ClassVolumes {
	if pc := fleet(name); pc != nil {
		return pc.VolumesOf(class)
	}
	return fleetv1alpha1.ClassVolumes{}
}

// Sourced is why the volume of the copy of a claim cannot be handed over to another physical
// cluster; empty if it can once it is released. holders are all Copies that record the same
// driver and handle, its own among them.
//
// Of two claims that record one volume in one backend neither is believed: which of the two
// physical clusters lies, nobody here can know.
func Sourced(c *placementv1alpha1.Copy, to string, holders []*placementv1alpha1.Copy, fleet Fleet) string {
	if c == nil || c.Status.Volume == nil {
		return "its volume is not known yet"
	}
	source, from := c.Status.Volume.Source, c.Spec.PhysicalCluster
	if source == nil {
		return "its volume cannot be handed over: " + c.Status.Volume.Reason
	}
	if why := Refusal(source.StorageClass, from, to, fleet); why != "" {
		return why
	}
	declared := entry(fleet, from, source.StorageClass)
	if source.Driver != declared.Driver {
		return fmt.Sprintf("its volume is one of the driver %s, and %s is declared", source.Driver, declared.Driver)
	}
	if !c.Status.Volume.Retained {
		return "its volume is not kept yet"
	}
	for _, holder := range holders {
		v := holder.Status.Volume
		if v == nil || v.Source == nil || v.Source.Driver != source.Driver || v.Source.Handle != source.Handle || sameClaim(holder, c) {
			continue
		}
		if entry(fleet, holder.Spec.PhysicalCluster, v.Source.StorageClass).Backend == declared.Backend {
			return "another claim has the same volume in the backend " + declared.Backend + ": an admin has to find out whose it is"
		}
	}
	return ""
}

// sameClaim: UIDs of objects are never twice.
func sameClaim(a, b *placementv1alpha1.Copy) bool {
	return a.Spec.Object.UID == b.Spec.Object.UID && a.Spec.Object.UID != types.UID("")
}

// Hand is the volume that a claim gets on a physical cluster from those that its unit leaves; if
// it gets none, why says the reason. copies are its Copies by physical cluster.
func Hand(from []string, to string, copies map[string]*placementv1alpha1.Copy, holders func(*placementv1alpha1.VolumeSource) []*placementv1alpha1.Copy, fleet Fleet) (_ *placementv1alpha1.TargetVolume, why string) {
	why = "its volume is not known yet"
	for _, name := range from {
		c := copies[name]
		if c == nil || c.Status.State == placementv1alpha1.CopyRemoved {
			continue
		}
		var same []*placementv1alpha1.Copy
		if v := c.Status.Volume; v != nil && v.Source != nil {
			same = holders(v.Source)
		}
		if why = Sourced(c, to, same, fleet); why == "" {
			return &placementv1alpha1.TargetVolume{From: name, Source: *c.Status.Volume.Source.DeepCopy()}, ""
		}
	}
	return nil, why
}
