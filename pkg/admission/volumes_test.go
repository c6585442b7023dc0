package admission

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestAttributesThatNoAdminDeclaredAreNotRecorded(t *testing.T) {
	w := placedWorld()
	w.clusters = []fleetv1alpha1.PhysicalCluster{{ObjectMeta: in("root", "east"), Spec: fleetv1alpha1.PhysicalClusterSpec{
		Volumes: []fleetv1alpha1.ClassVolumes{{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Attributes: []string{"pool"}}},
	}}}
	p := w.start(t).own
	for name, c := range map[string]struct {
		syncer     string
		class      string
		attributes map[string]string
		kept       bool
	}{
		"declared":                     {"east", "disks", map[string]string{"pool": "fast"}, true},
		"none":                         {"west", "disks", nil, true},
		"another":                      {"east", "disks", map[string]string{"pool": "fast", "password": "secret"}, false},
		"of another class":             {"east", "files", map[string]string{"pool": "fast"}, false},
		"of another physical cluster":  {"west", "disks", map[string]string{"pool": "fast"}, false},
		"of one that is not there":     {"gone", "disks", map[string]string{"pool": "fast"}, false},
		"by the server, as it records": {"", "disks", map[string]string{"password": "secret"}, true},
	} {
		record := &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{Volume: &placementv1alpha1.CopyVolume{Name: "pv", Source: &placementv1alpha1.VolumeSource{
			StorageClass: c.class, Driver: "disks.example.com", Handle: "h", Attributes: c.attributes, Capacity: resource.MustParse("1Gi"),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		}}}}
		p.withoutSecrets(&request{syncer: c.syncer, obj: record})
		v := record.Status.Volume
		if (v.Source != nil) != c.kept || c.kept != (v.Reason == "") || strings.Contains(v.Reason, "secret\"") || v.Name != "pv" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestAVolumeIsNotHandedOverToWhereItsClaimHasAnother(t *testing.T) {
	shares := fleetv1alpha1.PhysicalClusterSpec{Volumes: []fleetv1alpha1.ClassVolumes{{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "d"}}}
	var read snapshot
	for _, name := range []string{"east", "west"} {
		pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: in("root", name), Spec: shares}
		read.PhysicalClusters = append(read.PhysicalClusters, placement.PhysicalCluster{PhysicalCluster: pc})
	}
	kind, _ := workload.Builtin().ByResource(claimsResource)
	for targets, want := range map[string]string{
		`{"east":{},"west":{}}`: "it has a volume and data of its own on west",
		`{"east":{}}`:           "",
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"storageClassName": "disks"}}}
		u.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
		why := handed(read, []string{"west"}, false, shared(read, []string{"east"}, []string{"west"}))(transition.Object{Kind: kind, Logical: u}, "east")
		if why != want {
			t.Errorf("%s: %q", targets, why)
		}
	}
}

func TestWhoMakesAClaimWithAVolumeOnEachIsWarned(t *testing.T) {
	const each = "claim x has a volume and data of its own on each of east, west ("
	for name, c := range map[string]struct {
		mode    core.PersistentVolumeAccessMode
		class   string
		targets string
		want    string
	}{
		"many mount it, and the backend is one": {mode: core.ReadWriteMany, class: "disks"},
		"one mounts it":                         {mode: core.ReadWriteOnce, class: "disks", want: each + "not all of its access modes are ReadWriteMany or ReadOnlyMany)"},
		"of a class that is not shared":         {mode: core.ReadWriteMany, class: "files", want: each + "volumes of class files do not move from east)"},
		"each has its own already":              {mode: core.ReadWriteMany, class: "disks", targets: `{"east":{},"west":{}}`, want: each + "it had one on each before they could share one)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := placedWorld()
			w.namespaces[0].Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
			w.placements[0].Spec.Decision.PhysicalClusters = []placementv1alpha1.DecidedPhysicalCluster{{Name: "east"}, {Name: "west"}}
			for _, name := range []string{"east", "west"} {
				w.clusters = append(w.clusters, fleetv1alpha1.PhysicalCluster{ObjectMeta: in("root", name), Spec: fleetv1alpha1.PhysicalClusterSpec{Volumes: []fleetv1alpha1.ClassVolumes{
					{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "disks.example.com"}}}})
			}
			claim := &core.PersistentVolumeClaim{ObjectMeta: in("shop", "x"), Spec: core.PersistentVolumeClaimSpec{StorageClassName: &c.class, AccessModes: []core.PersistentVolumeAccessMode{c.mode}}}
			claim.Namespace = "web"
			old, op := runtime.Object(nil), admission.Create
			if c.targets != "" {
				claim.Annotations[placementv1alpha1.TargetsAnnotation] = c.targets
				old, op = claim.DeepCopy(), admission.Update
			}
			var warned said
			a := attributes(op, "persistentvolumeclaims", "PersistentVolumeClaim", claim, old, "", alice)
			if err := w.start(t).Admit(warning.WithWarningRecorder(shop(), &warned), a, nil); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(slices.DeleteFunc([]string(warned), func(s string) bool { return !strings.HasPrefix(s, "claim ") }), "; ")
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("it says %q, want %q", warned, c.want)
			}
		})
	}
}
