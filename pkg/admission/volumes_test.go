package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
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
