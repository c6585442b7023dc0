package volume

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const snapDriver = "snaps.example.com"

// snapshots declares a class whose volumes are restored from snapshots, with a change.
func snapshots(change func(*fleetv1alpha1.ClassVolumes)) []fleetv1alpha1.ClassVolumes {
	c := fleetv1alpha1.ClassVolumes{
		StorageClass: "disks", Strategy: fleetv1alpha1.VolumesSnapshot, Backend: "san", Driver: snapDriver,
		Snapshot: &fleetv1alpha1.VolumeSnapshots{VolumeSnapshotClass: "snaps", Image: "atoll-copy:1"},
	}
	if change != nil {
		change(&c)
	}
	return []fleetv1alpha1.ClassVolumes{c}
}

// snapping is a physical cluster that makes snapshots, with a change.
func snapping(name string, change func(*fleetv1alpha1.PhysicalCluster)) *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Volumes: snapshots(nil)}}
	pc.Name, pc.Status.APIs = name, slices.Clone(snapshotAPIs)
	pc.Status.VolumeSnapshotClasses = &fleetv1alpha1.ReportedSnapshotClasses{Classes: []fleetv1alpha1.SnapshotClass{
		{Name: "keeps", Driver: snapDriver, DeletionPolicy: "Retain"}, {Name: "snaps", Driver: snapDriver, DeletionPolicy: "Delete"}, {Name: "strange", Driver: "other.example.com", DeletionPolicy: "Delete"},
	}}
	if change != nil {
		change(pc)
	}
	return pc
}

func fleetWith(all ...*fleetv1alpha1.PhysicalCluster) Fleet {
	return func(name string) *fleetv1alpha1.PhysicalCluster {
		for _, pc := range all {
			if pc.Name == name {
				return pc
			}
		}
		return nil
	}
}

func TestVolumesAreRestoredWhereBothEndsMakeSnapshots(t *testing.T) {
	class := func(name string) func(*fleetv1alpha1.PhysicalCluster) {
		return func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Volumes[0].Snapshot.VolumeSnapshotClass = name }
	}
	for _, c := range []struct {
		name   string
		change func(*fleetv1alpha1.PhysicalCluster)
		want   string
	}{
		{"both do", nil, ""},
		{"without the API", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.APIs = nil }, "x does not serve snapshot.storage.k8s.io/v1/volumesnapshots"},
		{"without its contents", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.APIs = pc.Status.APIs[:1] }, "x does not serve snapshot.storage.k8s.io/v1/volumesnapshotcontents"},
		{"of unknown classes", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Status.VolumeSnapshotClasses = nil },
			"it is not known which volume snapshot classes x has: its syncer may not list them, or is from before"},
		{"without the class", class("gone"), "x has no volume snapshot class gone"},
		{"of a class of another driver", class("strange"), "the volume snapshot class strange of x is of the driver other.example.com, and snaps.example.com is declared"},
		{"of a class that keeps them", class("keeps"), "the volume snapshot class keeps of x has the deletionPolicy Retain: its snapshots would stay in the backend"},
		{"in another backend", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Volumes[0].Backend = "other" }, "have volumes of class disks in different backends"},
		{"of another driver", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Volumes[0].Driver = "other.example.com" }, "have volumes of class disks in different backends"},
		{"that shares", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Volumes = shared("san", snapDriver) }, "volumes of class disks are S"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fleet := fleetWith(snapping("west", nil), snapping("x", c.change))
			for _, way := range [][2]string{{"west", "x"}, {"x", "west"}} {
				if got := Refusal(Claim{Class: "disks"}, way[0], way[1], fleet); c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("from %s to %s: %q, want %q", way[0], way[1], got, c.want)
				}
			}
		})
	}
}

func snapshotOf(handle string) *placementv1alpha1.SnapshotSource {
	return &placementv1alpha1.SnapshotSource{StorageClass: "disks", Driver: snapDriver, Handle: handle, RestoreSize: ptr.To(resource.MustParse("1Gi"))}
}

// snapped is a Copy that says that a snapshot was made of its volume, or will be: then handle is empty.
func snapped(uid, on, handle string) *placementv1alpha1.Copy {
	c := copyOf(uid, on, nil)
	c.Status.Volume.Content = &placementv1alpha1.VolumeContent{StorageClass: "disks", Driver: snapDriver}
	if handle != "" {
		c.Status.Volume.Content.Snapshot = snapshotOf(handle)
	}
	return c
}

// A physical cluster that was taken over names what it likes.
func TestASnapshotIsBelievedOfOneClaimInItsBackend(t *testing.T) {
	fleet := fleetWith(snapping("west", nil), snapping("east", nil), snapping("far", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Volumes[0].Backend = "other" }),
		&fleetv1alpha1.PhysicalCluster{})
	shares := copyOf("3", "east", &placementv1alpha1.VolumeSource{StorageClass: "disks", Driver: snapDriver, Handle: "s"})
	with := func(change func(*placementv1alpha1.CopyVolume)) *placementv1alpha1.Copy {
		c := snapped("1", "west", "s")
		change(c.Status.Volume)
		return c
	}
	for _, c := range []struct {
		name    string
		copy    *placementv1alpha1.Copy
		to      string
		holders []*placementv1alpha1.Copy
		want    string
		waits   bool
	}{
		{"alone", snapped("1", "west", "s"), "east", nil, "", false},
		{"not made yet", snapped("1", "west", ""), "east", nil, "", true},
		{"which the same claim has elsewhere", snapped("1", "west", "s"), "east", []*placementv1alpha1.Copy{snapped("1", "west", "s"), snapped("1", "east", "s")}, "", false},
		{"which another claim has", snapped("1", "west", "s"), "east", []*placementv1alpha1.Copy{snapped("2", "west", "s")}, "another claim has the same snapshot in the backend san", false},
		{"which another claim has there", snapped("1", "west", "s"), "east", []*placementv1alpha1.Copy{snapped("2", "east", "s")}, "another claim has the same snapshot in the backend san", false},
		{"that is the volume of another claim", snapped("1", "west", "s"), "east", []*placementv1alpha1.Copy{shares}, "another claim has the same snapshot in the backend san", false},
		{"of that handle in another backend", snapped("1", "west", "s"), "east", []*placementv1alpha1.Copy{snapped("2", "far", "s")}, "", false},
		{"of another handle", snapped("1", "west", "s"), "east", []*placementv1alpha1.Copy{snapped("2", "west", "t")}, "", false},
		{"to another backend", snapped("1", "west", "s"), "far", nil, "west and far have volumes of class disks in different backends", false},
		{"of a driver that nobody declared", with(func(v *placementv1alpha1.CopyVolume) { v.Content.Driver = "evil.example.com" }), "east", nil, "its volume is one of the driver evil.example.com", false},
		{"that is of another driver than its volume", with(func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.Driver = "evil.example.com" }), "east", nil, "its snapshot is one of the driver evil.example.com", false},
		{"that is of another class than its volume", with(func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.StorageClass = "other" }), "east", nil, "its snapshot is one of the driver snaps.example.com and of class other", false},
		{"whose volume would go with its claim", with(func(v *placementv1alpha1.CopyVolume) { v.Retained = false }), "east", nil, "its volume is not kept yet", false},
		{"that was to be copied", with(func(v *placementv1alpha1.CopyVolume) { v.Content.Driver = "" }), "east", nil, "it was to move by the strategy Copy, and is not any more", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, why := Hand([]string{"west"}, c.to, map[string]*placementv1alpha1.Copy{"west": c.copy}, holding(c.holders...), fleet)
			if c.want == "" && why != "" || !strings.HasPrefix(why, c.want) {
				t.Errorf("%q, want %q", why, c.want)
			}
			var want *placementv1alpha1.TargetVolume
			if c.want == "" && !c.waits {
				want = &placementv1alpha1.TargetVolume{From: "west", Copied: true, Snapshot: snapshotOf("s")}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("it gets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsReportedOfASnapshotHasABound(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*placementv1alpha1.CopyVolume)
		want   string
	}{
		{"good", func(*placementv1alpha1.CopyVolume) {}, ""},
		{"no handle", func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.Handle = "" }, "content.snapshot.handle: Required"},
		{"a long handle", func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.Handle = strings.Repeat("x", 257) }, "content.snapshot.handle: Too long"},
		{"a driver of bad form", func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.Driver = "A B" }, "content.snapshot.driver: Invalid"},
		{"another of bad form", func(v *placementv1alpha1.CopyVolume) { v.Content.Driver = "A B" }, "content.driver: Invalid"},
		{"no class", func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.StorageClass = "" }, "content.snapshot.storageClass: Required"},
		{"less than nothing", func(v *placementv1alpha1.CopyVolume) {
			v.Content.Snapshot.RestoreSize = ptr.To(resource.MustParse("-1"))
		}, "content.snapshot.restoreSize: Invalid"},
		{"an unknown size", func(v *placementv1alpha1.CopyVolume) { v.Content.Snapshot.RestoreSize = nil }, ""},
		{"no name", func(v *placementv1alpha1.CopyVolume) { v.Snapshot.Name = "" }, "snapshot.name: Required"},
		{"much to say", func(v *placementv1alpha1.CopyVolume) { v.Snapshot.Message = strings.Repeat("x", 513) }, "snapshot.message: Too long"},
		{"filled by two ways", func(v *placementv1alpha1.CopyVolume) { v.Filled.Entries = 1 }, "filled: Forbidden"},
		{"filled from a long handle", func(v *placementv1alpha1.CopyVolume) { v.Filled.Snapshot = strings.Repeat("x", 257) }, "filled.snapshot: Too long"},
		{"filled from nothing", func(v *placementv1alpha1.CopyVolume) { v.Filled.Snapshot = "" }, "filled.digest: Invalid"},
	} {
		v := snapped("1", "west", "s").Status.Volume
		v.Snapshot = &placementv1alpha1.VolumeSnapshot{Name: "atoll-snapshot-1"}
		v.Filled = &placementv1alpha1.VolumeFilled{From: "west", Snapshot: "s"}
		c.change(v)
		var errs field.ErrorList
		for _, err := range Validate(v, nil) {
			if !strings.HasPrefix(err.Field, "source") {
				errs = append(errs, err)
			}
		}
		if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, errs, c.want)
		}
	}
}
