package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func shared(backend, driver string) []fleetv1alpha1.ClassVolumes {
	return []fleetv1alpha1.ClassVolumes{{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Backend: backend, Driver: driver}}
}

func fleetOf(declared map[string][]fleetv1alpha1.ClassVolumes) Fleet {
	return func(name string) *fleetv1alpha1.PhysicalCluster {
		classes, ok := declared[name]
		if !ok {
			return nil
		}
		return &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Volumes: classes}}
	}
}

var two = fleetOf(map[string][]fleetv1alpha1.ClassVolumes{
	"west": shared("san", "disks.example.com"), "east": shared("san", "disks.example.com"),
	"far": shared("other", "disks.example.com"), "odd": shared("san", "other.example.com"), "plain": nil,
})

func TestVolumesGoWhereAnAdminSaysThatTheyAreReached(t *testing.T) {
	for _, c := range []struct{ class, from, to, want string }{
		{"disks", "west", "east", ""},
		{"", "west", "east", "the claim names no storage class"},
		{"slow", "west", "east", "volumes of class slow do not move from west"},
		{"disks", "plain", "east", "volumes of class disks do not move from plain"},
		{"disks", "west", "plain", "volumes of class disks do not move to plain"},
		{"disks", "west", "far", "west and far have volumes of class disks in different backends"},
		{"disks", "west", "odd", "west and odd have volumes of class disks in different backends"},
		{"disks", "gone", "east", "volumes of class disks do not move from gone"},
		{"disks", "west", "gone", "volumes of class disks do not move to gone"},
	} {
		if got := Refusal(Claim{Class: c.class}, c.from, c.to, two); got != c.want {
			t.Errorf("%s from %s to %s: %q, want %q", c.class, c.from, c.to, got, c.want)
		}
	}
}

func copies(maxBytes string) []fleetv1alpha1.ClassVolumes {
	return []fleetv1alpha1.ClassVolumes{{StorageClass: "files", Strategy: fleetv1alpha1.VolumesCopy, Copy: &fleetv1alpha1.VolumeCopy{Image: "atoll-copy:1", MaxBytes: resource.MustParse(maxBytes)}}}
}

func TestDataAreCopiedWhereBothEndsDeclareIt(t *testing.T) {
	fleet := fleetOf(map[string][]fleetv1alpha1.ClassVolumes{
		"west": copies("2Gi"), "east": copies("1Gi"),
		"odd": {{StorageClass: "files", Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "d"}},
	})
	claim := func(size, mode string) map[string]any {
		return map[string]any{"spec": map[string]any{"storageClassName": "files", "volumeMode": mode, "resources": map[string]any{"requests": map[string]any{"storage": size}}}}
	}
	for _, c := range []struct {
		claim    map[string]any
		from, to string
		want     string
	}{
		{claim("1Gi", "Filesystem"), "west", "east", ""},
		{claim("1Gi", ""), "east", "west", ""},
		{claim("1025Mi", ""), "west", "east", "it asks for more than the maxBytes of east"},
		{claim("1Gi", "Block"), "west", "east", "it is a block volume, and files are copied"},
		{claim("1Gi", ""), "west", "odd", "volumes of class files are Copy on west and Shared on odd"},
		{claim("1Gi", ""), "west", "plain", "volumes of class files do not move to plain"},
	} {
		if got := Refusal(ClaimOf(c.claim), c.from, c.to, fleet); got != c.want {
			t.Errorf("%v from %s to %s: %q, want %q", c.claim, c.from, c.to, got, c.want)
		}
	}
	kept := copyOf("1", "west", nil)
	kept.Status.Volume.Content = &placementv1alpha1.VolumeContent{StorageClass: "files"}
	v, why := Hand([]string{"west"}, "east", map[string]*placementv1alpha1.Copy{"west": kept}, nil, fleet)
	if why != "" || v == nil || v.From != "west" || !v.Copied {
		t.Errorf("%+v, %q", v, why)
	}
	kept.Status.Volume.Retained = false
	if v, why := Hand([]string{"west"}, "east", map[string]*placementv1alpha1.Copy{"west": kept}, nil, fleet); v != nil || why != "its volume is not kept yet" {
		t.Errorf("%+v, %q", v, why)
	}
}

func source(driver, handle string) *placementv1alpha1.VolumeSource {
	return &placementv1alpha1.VolumeSource{
		StorageClass: "disks", Driver: driver, Handle: handle, Capacity: resource.MustParse("1Gi"),
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
	}
}

func copyOf(uid, on string, s *placementv1alpha1.VolumeSource) *placementv1alpha1.Copy {
	c := &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: on, Object: placementv1alpha1.ObjectReference{UID: types.UID(uid)}}}
	c.Status.State = placementv1alpha1.CopySynced
	c.Status.Volume = &placementv1alpha1.CopyVolume{Name: "pv", Source: s, Reason: "it is no CSI volume", Retained: true}
	return c
}

// holding finds all of some Copies, whatever is asked for: who asks looks again.
func holding(copies ...*placementv1alpha1.Copy) Holders {
	return func(placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy { return copies }
}

// What a physical cluster says of a volume is not believed beyond what an admin declared, nor
// against what another one says.
func TestAHandleIsBelievedOfOneClaim(t *testing.T) {
	const driver = "disks.example.com"
	mine := copyOf("1", "west", source(driver, "h"))
	loose := copyOf("1", "west", source(driver, "h"))
	loose.Status.Volume.Retained = false
	unknown := copyOf("1", "west", nil)
	unknown.Status.Volume = nil
	for _, c := range []struct {
		name    string
		copy    *placementv1alpha1.Copy
		to      string
		holders []*placementv1alpha1.Copy
		want    string
	}{
		{"alone", mine, "east", []*placementv1alpha1.Copy{mine}, ""},
		{"not recorded", nil, "east", nil, "its volume is not known yet"},
		{"without a volume", unknown, "east", nil, "its volume is not known yet"},
		{"that would go with its claim", loose, "east", nil, "its volume is not kept yet"},
		{"that cannot be handed over", copyOf("1", "west", nil), "east", nil, "its volume cannot be handed over: it is no CSI volume"},
		{"to another backend", mine, "far", nil, "west and far have volumes of class disks in different backends"},
		{"of a driver that nobody declared", copyOf("1", "west", source("evil.example.com", "h")), "east", nil, "its volume is one of the driver evil.example.com, and disks.example.com is declared"},
		{"which the same claim has elsewhere", mine, "east", []*placementv1alpha1.Copy{mine, copyOf("1", "east", source(driver, "h"))}, ""},
		{"which another claim has there", mine, "east", []*placementv1alpha1.Copy{mine, copyOf("2", "east", source(driver, "h"))}, "another claim has the same volume"},
		{"which another claim has here", mine, "east", []*placementv1alpha1.Copy{mine, copyOf("2", "west", source(driver, "h"))}, "another claim has the same volume"},
		{"of that name in another backend", mine, "east", []*placementv1alpha1.Copy{mine, copyOf("2", "far", source(driver, "h"))}, ""},
	} {
		got := Sourced(c.copy, c.to, holding(c.holders...), two)
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatIsDeclaredAndReportedHasABound(t *testing.T) {
	path := field.NewPath("spec", "volumes")
	for _, c := range []struct {
		name string
		in   []fleetv1alpha1.ClassVolumes
		want string
	}{
		{"shared", shared("san", "disks.example.com"), ""},
		{"refused", []fleetv1alpha1.ClassVolumes{{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesRefuse}}, ""},
		{"without a class", []fleetv1alpha1.ClassVolumes{{Strategy: fleetv1alpha1.VolumesRefuse}}, "spec.volumes[0].storageClass: Required"},
		{"without a strategy", []fleetv1alpha1.ClassVolumes{{StorageClass: "disks"}}, "spec.volumes[0].strategy: Unsupported"},
		{"without a backend", shared("", "disks.example.com"), "spec.volumes[0].backend: Required"},
		{"without a driver", shared("san", ""), "spec.volumes[0].driver: Required"},
		{"with a driver of bad form", shared("san", "A B"), "spec.volumes[0].driver: Invalid"},
		{"refused with a backend", []fleetv1alpha1.ClassVolumes{{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesRefuse, Backend: "san"}}, "spec.volumes[0].backend: Forbidden"},
		{"copied", copies("1Gi"), ""},
		{"copied without saying how", []fleetv1alpha1.ClassVolumes{{StorageClass: "files", Strategy: fleetv1alpha1.VolumesCopy}}, "spec.volumes[0].copy: Required"},
		{"copied without a bound", copies("0"), "spec.volumes[0].copy.maxBytes: Invalid"},
		{"copied up to half a byte", copies("500m"), "spec.volumes[0].copy.maxBytes: Invalid"},
		{"copied by no image", []fleetv1alpha1.ClassVolumes{{StorageClass: "files", Strategy: fleetv1alpha1.VolumesCopy, Copy: &fleetv1alpha1.VolumeCopy{MaxBytes: resource.MustParse("1Gi")}}}, "spec.volumes[0].copy.image: Required"},
		{"copied by two words", []fleetv1alpha1.ClassVolumes{{StorageClass: "files", Strategy: fleetv1alpha1.VolumesCopy, Copy: &fleetv1alpha1.VolumeCopy{Image: "a b", MaxBytes: resource.MustParse("1Gi")}}}, "spec.volumes[0].copy.image: Invalid"},
		{"copied, and then burnt", []fleetv1alpha1.ClassVolumes{{StorageClass: "files", Strategy: fleetv1alpha1.VolumesCopy, Copy: &fleetv1alpha1.VolumeCopy{Image: "a", MaxBytes: resource.MustParse("1Gi"), FormerVolume: "Burn"}}}, "spec.volumes[0].copy.formerVolume: Unsupported"},
		{"shared, with a copy", []fleetv1alpha1.ClassVolumes{{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "d", Copy: copies("1Gi")[0].Copy}}, "spec.volumes[0].copy: Forbidden"},
		{"restored", snapshots(nil), ""},
		{"restored from no backend", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Backend = "" }), "spec.volumes[0].backend: Required"},
		{"restored by no driver", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Driver = "" }), "spec.volumes[0].driver: Required"},
		{"restored without saying how", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Snapshot = nil }), "spec.volumes[0].snapshot: Required"},
		{"restored by no class", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Snapshot.VolumeSnapshotClass = "" }), "spec.volumes[0].snapshot.volumeSnapshotClass: Required"},
		{"restored by a class of bad form", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Snapshot.VolumeSnapshotClass = "../x" }), "spec.volumes[0].snapshot.volumeSnapshotClass: Invalid"},
		{"restored by no image", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Snapshot.Image = "" }), "spec.volumes[0].snapshot.image: Required"},
		{"restored, and then burnt", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Snapshot.FormerVolume = "Burn" }), "spec.volumes[0].snapshot.formerVolume: Unsupported"},
		{"restored, with attributes", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Attributes = []string{"pool"} }), "spec.volumes[0].attributes: Forbidden"},
		{"restored, with a copy", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Copy = copies("1Gi")[0].Copy }), "spec.volumes[0].copy: Forbidden"},
		{"shared, with snapshots", snapshots(func(c *fleetv1alpha1.ClassVolumes) { c.Strategy = fleetv1alpha1.VolumesShared }), "spec.volumes[0].snapshot: Forbidden"},
		{"twice", append(shared("san", "d"), shared("san", "d")...), "spec.volumes[1].storageClass: Duplicate"},
		{"too many", make([]fleetv1alpha1.ClassVolumes, maxClasses+1), "spec.volumes: Too many"},
	} {
		errs := ValidateClasses(c.in, path)
		if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, errs, c.want)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*placementv1alpha1.VolumeSource)
		want   string
	}{
		{"good", func(*placementv1alpha1.VolumeSource) {}, ""},
		{"no handle", func(s *placementv1alpha1.VolumeSource) { s.Handle = "" }, "source.handle: Required"},
		{"a long handle", func(s *placementv1alpha1.VolumeSource) { s.Handle = strings.Repeat("x", 257) }, "source.handle: Too long"},
		{"no capacity", func(s *placementv1alpha1.VolumeSource) { s.Capacity = resource.Quantity{} }, "source.capacity: Invalid"},
		{"no modes", func(s *placementv1alpha1.VolumeSource) { s.AccessModes = nil }, "source.accessModes: Invalid"},
		{"an unknown mode", func(s *placementv1alpha1.VolumeSource) { s.AccessModes[0] = "All" }, "source.accessModes[0]: Unsupported"},
		{"an unknown policy", func(s *placementv1alpha1.VolumeSource) { s.ReclaimPolicy = "Recycle" }, "source.reclaimPolicy: Unsupported"},
		{"a long attribute", func(s *placementv1alpha1.VolumeSource) {
			s.Attributes = map[string]string{"a": strings.Repeat("x", 257)}
		}, "source.attributes[a]: Invalid"},
		{"much of attributes", func(s *placementv1alpha1.VolumeSource) {
			s.Attributes = map[string]string{}
			for i := range 20 {
				s.Attributes[string(rune('a'+i))] = strings.Repeat("x", 200)
			}
		}, "source.attributes: Too many"},
	} {
		s := source("disks.example.com", "h")
		c.change(s)
		errs := ValidateSource(s, field.NewPath("source"))
		if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, errs, c.want)
		}
	}
}

// Some drivers keep credentials in attributes: those go over that admins of both ends have named.
func TestAttributesGoOverThatBothEndsDeclare(t *testing.T) {
	declared := func(keys ...string) []fleetv1alpha1.ClassVolumes {
		all := shared("san", "disks.example.com")
		all[0].Attributes = keys
		return all
	}
	fleet := fleetOf(map[string][]fleetv1alpha1.ClassVolumes{"west": declared("pool", "share"), "east": declared("pool")})
	for name, c := range map[string]struct {
		attributes map[string]string
		want       string
	}{
		"none":              {nil, ""},
		"the provisioner's": {map[string]string{provisioner: "1"}, ""},
		"declared":          {map[string]string{"pool": "fast"}, ""},
		"declared once":     {map[string]string{"pool": "fast", "share": "s"}, "its volume has attributes that spec.volumes of east does not name, and that may be secret: share"},
		"secret":            {map[string]string{"password": "p"}, "its volume has attributes that spec.volumes of west does not name, and that may be secret: password"},
		"many":              {map[string]string{"a": "", "b": "", "c": "", "d": "", "e": ""}, "its volume has attributes that spec.volumes of west does not name, and that may be secret: a, b, c and 2 more"},
	} {
		s := source("disks.example.com", "h")
		s.Attributes = c.attributes
		if got := Sourced(copyOf("1", "west", s), "east", nil, fleet); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, keys := range map[string][]string{"twice": {"a", "a"}, "empty": {""}, "long": {strings.Repeat("a", 257)}, "many": make([]string, 33)} {
		if errs := ValidateClasses(declared(keys...), nil); len(errs) == 0 {
			t.Errorf("%s: it is taken", name)
		}
	}
	if errs := ValidateClasses(declared("a", "b"), nil); len(errs) > 0 {
		t.Error(errs)
	}
	files := copies("1Gi")
	files[0].Attributes = []string{"a"}
	if errs := ValidateClasses(files, nil); len(errs) == 0 {
		t.Error("attributes of a class that is copied are taken")
	}
}
