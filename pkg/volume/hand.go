package volume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Fleet finds a physical cluster; nil if there is none.
type Fleet func(name string) *fleetv1alpha1.PhysicalCluster

// Claim is what is asked of a claim before it moves.
type Claim struct {
	// Class is the storage class that it names.
	Class string
	// Block says that its volume has no files.
	Block bool
	// Size is what it asks for.
	Size resource.Quantity
	// Many says that nodes of several physical clusters may mount its volume: all its access
	// modes are of many.
	Many bool
}

// ClaimOf is what is asked of a claim. A size that cannot be read is none: the API server has
// refused it.
func ClaimOf(claim map[string]any) Claim {
	mode, _, _ := unstructured.NestedString(claim, "spec", "volumeMode")
	asked, _, _ := unstructured.NestedString(claim, "spec", "resources", "requests", "storage")
	size, _ := resource.ParseQuantity(asked)
	return Claim{Class: workload.ClassOfClaim(claim), Block: mode == string(corev1.PersistentVolumeBlock), Size: size, Many: ofMany(claim)}
}

func ofMany(claim map[string]any) bool {
	modes, _, _ := unstructured.NestedStringSlice(claim, "spec", "accessModes")
	return len(modes) > 0 && !slices.ContainsFunc(modes, func(mode string) bool {
		return mode != string(corev1.ReadWriteMany) && mode != string(corev1.ReadOnlyMany)
	})
}

// Refusal is why the volume of a claim, or what is in it, does not go from one physical cluster to
// another one; empty if it does.
//
//	class on from     on to                    then
//	no name           any                      refused: it is not known which one it is
//	Refuse            any                      refused
//	any other         Refuse, or another one   refused
//	Shared, Snapshot  the same, of another     refused
//	                  backend or driver
//	Shared            the same                 handed over
//	Snapshot          the same                 restored, if both make snapshots, see unsnapped
//	Copy              Copy                     copied, if it has files, and asks for no more than
//	                                           maxBytes of both
func Refusal(claim Claim, from, to string, fleet Fleet) string {
	class := claim.Class
	if class == "" {
		return "the claim names no storage class"
	}
	there, here := entry(fleet, from, class), entry(fleet, to, class)
	switch {
	case !there.Strategy.Moves():
		return fmt.Sprintf("volumes of class %s do not move from %s", class, from)
	case !here.Strategy.Moves():
		return fmt.Sprintf("volumes of class %s do not move to %s", class, to)
	case here.Strategy != there.Strategy:
		return fmt.Sprintf("volumes of class %s are %s on %s and %s on %s", class, there.Strategy, from, here.Strategy, to)
	case here.Strategy == fleetv1alpha1.VolumesCopy:
		return uncopied(claim, from, there.Copy, to, here.Copy)
	case here.Backend != there.Backend || here.Driver != there.Driver:
		return fmt.Sprintf("%s and %s have volumes of class %s in different backends", from, to, class)
	case here.Strategy == fleetv1alpha1.VolumesSnapshot:
		if why := unsnapped(fleet(from), there); why != "" {
			return why
		}
		return unsnapped(fleet(to), here)
	}
	return ""
}

// unsnapped is why no snapshot of a class is made on a physical cluster, or restored; empty if it is. Also the one
// that only restores needs a class: it is the one that makes the snapshot on the way back.
//
//	the API       the class of the entry     then
//	not served    any                        no
//	served        is not known, or not there no
//	served        is of another driver       no
//	served        keeps snapshots            no: they would stay in the backend when their objects go
//	served        else                       yes
func unsnapped(pc *fleetv1alpha1.PhysicalCluster, declared fleetv1alpha1.ClassVolumes) string {
	if declared.Snapshot == nil {
		return fmt.Sprintf("%s does not say how snapshots of class %s are made", pc.Name, declared.StorageClass)
	}
	for _, api := range snapshotAPIs {
		if !slices.Contains(pc.Status.APIs, api) {
			return fmt.Sprintf("%s does not serve %s", pc.Name, api)
		}
	}
	if pc.Status.VolumeSnapshotClasses == nil {
		return fmt.Sprintf("it is not known which volume snapshot classes %s has: its syncer may not list them, or is from before", pc.Name)
	}
	name := declared.Snapshot.VolumeSnapshotClass
	i := slices.IndexFunc(pc.Status.VolumeSnapshotClasses.Classes, func(c fleetv1alpha1.SnapshotClass) bool { return c.Name == name })
	if i < 0 {
		return fmt.Sprintf("%s has no volume snapshot class %s", pc.Name, name)
	}
	switch class := pc.Status.VolumeSnapshotClasses.Classes[i]; {
	case class.Driver != declared.Driver:
		return fmt.Sprintf("the volume snapshot class %s of %s is of the driver %s, and %s is declared", name, pc.Name, class.Driver, declared.Driver)
	case class.DeletionPolicy != string(corev1.PersistentVolumeReclaimDelete):
		return fmt.Sprintf("the volume snapshot class %s of %s has the deletionPolicy %s: its snapshots would stay in the backend", name, pc.Name, class.DeletionPolicy)
	}
	return ""
}

// snapshotAPIs are what a physical cluster has to serve, as its status names them.
var snapshotAPIs = []string{"snapshot.storage.k8s.io/v1/volumesnapshots", "snapshot.storage.k8s.io/v1/volumesnapshotcontents"}

func uncopied(claim Claim, from string, there *fleetv1alpha1.VolumeCopy, to string, here *fleetv1alpha1.VolumeCopy) string {
	if claim.Block {
		return "it is a block volume, and files are copied"
	}
	for _, end := range []struct {
		name string
		copy *fleetv1alpha1.VolumeCopy
	}{{from, there}, {to, here}} {
		if end.copy == nil || claim.Size.Cmp(end.copy.MaxBytes) > 0 {
			return fmt.Sprintf("it asks for more than the maxBytes of %s", end.name)
		}
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
// cluster; empty if it can once it is released. holders finds all Copies that record a driver and
// handle, its own among them.
//
// Of two claims that record one volume in one backend neither is believed: which of the two
// physical clusters lies, nobody here can know.
func Sourced(c *placementv1alpha1.Copy, to string, holders Holders, fleet Fleet) string {
	if c == nil || c.Status.Volume == nil {
		return "its volume is not known yet"
	}
	source, from := c.Status.Volume.Source, c.Spec.PhysicalCluster
	if content := c.Status.Volume.Content; content != nil {
		return brought(c, to, holders, fleet)
	}
	if source == nil {
		return "its volume cannot be handed over: " + c.Status.Volume.Reason
	}
	if why := Refusal(Claim{Class: source.StorageClass}, from, to, fleet); why != "" {
		return why
	}
	declared, there := entry(fleet, from, source.StorageClass), entry(fleet, to, source.StorageClass)
	for _, end := range []struct {
		name     string
		declared []string
	}{{from, declared.Attributes}, {to, there.Attributes}} {
		if keys := Undeclared(source.Attributes, end.declared); keys != "" {
			return fmt.Sprintf("its volume has attributes that spec.volumes of %s does not name, and that may be secret: %s", end.name, keys)
		}
	}
	if source.Driver != declared.Driver {
		return fmt.Sprintf("its volume is one of the driver %s, and %s is declared", source.Driver, declared.Driver)
	}
	if !c.Status.Volume.Retained {
		return "its volume is not kept yet"
	}
	if heldByOther(c, source.Named(), declared.Backend, holders, fleet) {
		return "another claim has the same volume in the backend " + declared.Backend + ": an admin has to find out whose it is"
	}
	return ""
}

// heldByOther says that the Copy of another claim records what one records, in the same backend.
func heldByOther(c *placementv1alpha1.Copy, is placementv1alpha1.VolumeHandle, backend string, holders Holders, fleet Fleet) bool {
	if holders == nil {
		return false
	}
	for _, holder := range holders(is) {
		if sameClaim(holder, c) {
			continue
		}
		for _, other := range holder.Status.Volume.Named() {
			if other.Driver == is.Driver && other.Handle == is.Handle && entry(fleet, holder.Spec.PhysicalCluster, other.StorageClass).Backend == backend {
				return true
			}
		}
	}
	return false
}

// provisioner is the attribute that provisioners note themselves in: part of the volume for them, and no
// secret.
const provisioner = "storage.kubernetes.io/csiProvisionerIdentity"

// Undeclared are the keys of attributes that an admin has not declared, of which the first few are
// named; empty if there are none. What they mean only a driver knows: some have credentials there.
func Undeclared(attributes map[string]string, declared []string) string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if key != provisioner && !slices.Contains(declared, key) {
			keys = append(keys, bounded(key))
		}
	}
	if more := len(keys) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:mostNamed], ", "), more)
	}
	return strings.Join(keys, ", ")
}

// ReasonUndeclared is why a volume with such keys is not handed over.
func ReasonUndeclared(keys string) string {
	const reason = "it has attributes that spec.volumes of the PhysicalCluster does not name, and that may be secret: "
	return reason + keys[:min(len(keys), maxReason-len(reason))]
}

// mostNamed is how many keys a message names.
const mostNamed = 3

// brought is Sourced for a volume whose data are brought into another one.
//
//	by           belong to                              then
//	a copy       nobody else, whatever is said of it:   believed
//	             the pod that reads it is in the
//	             namespace of the claim
//	a snapshot   who has a snapshot of the handle that  believed of the driver and in the backend that are
//	             is said                                declared, and of one claim
func brought(c *placementv1alpha1.Copy, to string, holders Holders, fleet Fleet) string {
	content, from := c.Status.Volume.Content, c.Spec.PhysicalCluster
	if why := Refusal(Claim{Class: content.StorageClass}, from, to, fleet); why != "" {
		return why
	}
	declared, strategy := entry(fleet, from, content.StorageClass), fleetv1alpha1.VolumesCopy
	if content.Driver != "" {
		strategy = fleetv1alpha1.VolumesSnapshot
	}
	switch {
	case declared.Strategy != strategy:
		return fmt.Sprintf("it was to move by the strategy %s, and is not any more: its syncer has not said yet how it is handed over", strategy)
	case content.Driver != declared.Driver:
		return fmt.Sprintf("its volume is one of the driver %s, and %s is declared", content.Driver, declared.Driver)
	case !c.Status.Volume.Retained:
		return "its volume is not kept yet"
	case content.Snapshot == nil:
		return ""
	case content.Snapshot.Driver != declared.Driver || content.Snapshot.StorageClass != content.StorageClass:
		return fmt.Sprintf("its snapshot is one of the driver %s and of class %s, and not that of its volume", content.Snapshot.Driver, content.Snapshot.StorageClass)
	case heldByOther(c, content.Snapshot.Named(), declared.Backend, holders, fleet):
		return "another claim has the same snapshot in the backend " + declared.Backend + ": an admin has to find out whose it is"
	}
	return ""
}

// sameClaim: UIDs of objects are never twice.
func sameClaim(a, b *placementv1alpha1.Copy) bool {
	return a.Spec.Object.UID == b.Spec.Object.UID && a.Spec.Object.UID != types.UID("")
}

// Holders finds the Copies that record a volume or a snapshot.
type Holders func(placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy

// Hand is the volume that a claim gets on a physical cluster from those that its unit leaves; if
// it gets none, why says the reason. It has none, and no reason, as long as only its snapshot is
// not made yet: that is done last. copies are its Copies by physical cluster.
func Hand(from []string, to string, copies map[string]*placementv1alpha1.Copy, holders Holders, fleet Fleet) (_ *placementv1alpha1.TargetVolume, why string) {
	why = "its volume is not known yet"
	for _, name := range from {
		c := copies[name]
		if c == nil || c.Status.State == placementv1alpha1.CopyRemoved {
			continue
		}
		if why = Sourced(c, to, holders, fleet); why != "" {
			continue
		}
		switch content := c.Status.Volume.Content; {
		case content == nil:
			return &placementv1alpha1.TargetVolume{From: name, Source: *c.Status.Volume.Source.DeepCopy()}, ""
		case content.Driver == "":
			return &placementv1alpha1.TargetVolume{From: name, Copied: true}, ""
		case content.Snapshot == nil:
			return nil, ""
		default:
			return &placementv1alpha1.TargetVolume{From: name, Copied: true, Snapshot: content.Snapshot.DeepCopy()}, ""
		}
	}
	return nil, why
}
