package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// Resources of storage, which physical clusters serve where users claim volumes.
var (
	persistentVolumes = schema.GroupResource{Resource: "persistentvolumes"}
	attachments       = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}
	storageClasses    = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}

	ofStorage = []schema.GroupResource{claims, persistentVolumes, attachments}
)

// driver makes the volumes of all physical clusters, in one backend.
const driver = "disks.example.com"

// class is a storage class of every physical cluster.
type class struct {
	name   string
	policy corev1.PersistentVolumeReclaimPolicy
	// late makes a volume once a pod mounts its claim.
	late bool
	// strategy is how its volumes move; empty for Shared. former is what becomes of one whose data were brought
	// elsewhere.
	strategy fleetv1alpha1.VolumeStrategy
	former   fleetv1alpha1.FormerVolume
}

var classes = []class{
	{name: "files", policy: corev1.PersistentVolumeReclaimDelete},
	{name: "archive", policy: corev1.PersistentVolumeReclaimRetain},
	{name: "late", policy: corev1.PersistentVolumeReclaimDelete, late: true},
}

// classes are those of a world.
func (w *World) classes() []class {
	if w.data {
		return slices.Concat(classes, broughtClasses)
	}
	return classes
}

// claimVariants are the claims that users make: mostly such that many mount.
var claimVariants = []struct {
	class string
	mode  string
}{
	{"files", string(corev1.ReadWriteMany)}, {"archive", string(corev1.ReadWriteMany)}, {"files", string(corev1.ReadOnlyMany)},
	{"late", string(corev1.ReadWriteMany)}, {"files", string(corev1.ReadWriteOnce)}, {"archive", string(corev1.ReadWriteOnce)},
}

// declaredClasses is what admins declare of the classes.
func (w *World) declaredClasses() []fleetv1alpha1.ClassVolumes {
	var out []fleetv1alpha1.ClassVolumes
	for _, c := range w.classes() {
		declared := fleetv1alpha1.ClassVolumes{StorageClass: c.name, Strategy: c.strategy, Backend: "san", Driver: driver}
		switch c.strategy {
		case fleetv1alpha1.VolumesCopy:
			declared.Backend, declared.Driver = "", ""
			declared.Copy = &fleetv1alpha1.VolumeCopy{Image: "copy", MaxBytes: resourceapi.MustParse("10Gi"), FormerVolume: c.former}
		case fleetv1alpha1.VolumesSnapshot:
			declared.Snapshot = &fleetv1alpha1.VolumeSnapshots{VolumeSnapshotClass: movesClass, Image: "copy", FormerVolume: c.former}
		default:
			declared.Strategy = fleetv1alpha1.VolumesShared
		}
		out = append(out, declared)
	}
	return out
}

func (h Happening) claim() Happening {
	h.Resource = claims
	return h
}

// claim: a user claims a volume.
func (w *World) claim(h Happening) { w.createObject(h.claim()) }

// unclaim: a user gives one up, with its data.
func (w *World) unclaim(h Happening) { w.remove(h.claim().key(), 3) }

// replaceClaim: a user wants an empty one of the same name.
func (w *World) replaceClaim(h Happening) { w.replaceObject(h.claim()) }

// deleteClaimBelow: people delete a claim of a physical cluster, and its data if its policy says so.
func (w *World) deleteClaimBelow(h Happening) { w.deleteBelow(h.claim()) }

// mount: a user has the pods of a Deployment mount a claim, or makes a pod that does.
func (w *World) mount(h Happening) {
	volumes := []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": h.Name}}}
	h.Resource = deployments
	path := []string{"spec", "template", "spec", "volumes"}
	if h.N%5 == 0 {
		h.Resource, path = pods, []string{"spec", "volumes"}
	}
	u := example(h.Resource, h.Namespace, h.Name, 1+h.N%2)
	_ = unstructured.SetNestedSlice(u.Object, volumes, path...) // a path of maps
	if h.Resource == pods || w.api.Find(h.key()) == nil {
		w.create(h.key(), u, nil)
		return
	}
	w.update(w.people, h.key(), func(u *unstructured.Unstructured) bool {
		_ = unstructured.SetNestedSlice(u.Object, volumes, path...) // a path of maps
		return true
	})
}

// mountedBy are the claims that pods mount, by the path of their template.
func mountedBy(obj *unstructured.Unstructured, template ...string) (names []string) {
	volumes, _, _ := unstructured.NestedSlice(obj.Object, append(template, "spec", "volumes")...)
	for _, v := range volumes {
		m, _ := v.(map[string]any)
		if name, _, _ := unstructured.NestedString(m, "persistentVolumeClaim", "claimName"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// makeStorageClasses is what an admin of a physical cluster does where volumes are claimed.
func (p *physical) makeStorageClasses() {
	if !p.world.volumes {
		return
	}
	for _, c := range p.world.classes() {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": driver, "reclaimPolicy": string(c.policy)}}
		u.SetName(c.name)
		p.must(p.api.Create(controllers, storageClasses, u))
	}
	p.makeSnapshotClass()
}

func classNamed(name string) *class {
	for _, c := range slices.Concat(classes, broughtClasses) {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// claimOf is the key of the claim that a volume is bound to, or reserved for.
func claimOf(pv kube.Object) kube.Key {
	return kube.Key{Resource: claims, Namespace: text(pv, "spec", "claimRef", "namespace"), Name: text(pv, "spec", "claimRef", "name")}
}

func volumeKey(name string) kube.Key { return kube.Key{Resource: persistentVolumes, Name: name} }

// handleOf is what the backend calls a volume; empty if that is nil.
func handleOf(pv kube.Object) string {
	if u, ok := pv.(*unstructured.Unstructured); !ok || u == nil {
		return ""
	}
	return text(pv, "spec", "csi", "volumeHandle")
}
