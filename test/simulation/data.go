package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// Resources that physical clusters serve where data move.
var (
	snapshots        = syncer.Snapshots.GroupResource()
	snapshotContents = syncer.SnapshotContents.GroupResource()
	snapshotClasses  = syncer.SnapshotClasses.GroupResource()

	ofData = []schema.GroupResource{statefulSets, snapshots, snapshotContents, snapshotClasses}
)

// movesClass is the VolumeSnapshotClass of every physical cluster.
const movesClass = "moves"

// broughtClasses are those of which the data are brought into another volume.
var broughtClasses = []class{
	{name: "copied", policy: corev1.PersistentVolumeReclaimDelete, strategy: fleetv1alpha1.VolumesCopy, former: fleetv1alpha1.FormerVolumeReclaim},
	{name: "copied-late", policy: corev1.PersistentVolumeReclaimDelete, late: true, strategy: fleetv1alpha1.VolumesCopy, former: fleetv1alpha1.FormerVolumeRetain},
	{name: "snapped", policy: corev1.PersistentVolumeReclaimDelete, strategy: fleetv1alpha1.VolumesSnapshot, former: fleetv1alpha1.FormerVolumeReclaim},
	{name: "snapped-kept", policy: corev1.PersistentVolumeReclaimRetain, strategy: fleetv1alpha1.VolumesSnapshot, former: fleetv1alpha1.FormerVolumeRetain},
}

// dataClasses are those of claims whose data move, in the order of the variants of happenings.
var dataClasses = []string{"copied", "snapped", "files", "copied-late", "snapped-kept", "archive"}

// claimSpec is what a claim of one place asks for.
func claimSpec(n int) map[string]any {
	return map[string]any{
		"storageClassName": dataClasses[n%len(dataClasses)], "accessModes": []any{string(corev1.ReadWriteOnce)},
		"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	}
}

// varySet makes a StatefulSet the variant n. What it claims stays as it was.
func varySet(u *unstructured.Unstructured, version string, n int) {
	spec := part(u, "spec")
	if spec == nil {
		spec = map[string]any{
			"serviceName": u.GetName(), "selector": map[string]any{"matchLabels": map[string]any{"app": u.GetName()}},
			"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data"}, "spec": claimSpec(n)}},
		}
		u.Object["spec"] = spec
	}
	spec["replicas"], spec["template"] = int64(n%4), template(u.GetName(), version, 2)
}

func (h Happening) set() Happening {
	h.Resource, h.Name = statefulSets, "s"+h.Name
	return h
}

// makeSet: a user makes a StatefulSet that claims a volume for each of its pods.
func (w *World) makeSet(h Happening) { w.createObject(h.set()) }

// changeSet: a user scales it, or changes its pods.
func (w *World) changeSet(h Happening) { w.editObject(h.set()) }

// deleteSet: a user deletes it, and its claims stay.
func (w *World) deleteSet(h Happening) { w.remove(h.set().key(), h.N) }

func (h Happening) dataClaim() Happening {
	h.Resource, h.Name = claims, "data-"+h.Name
	return h
}

// claimData: a user claims a volume of one place.
func (w *World) claimData(h Happening) {
	h = h.dataClaim()
	u := newObject(claims, h.Namespace, h.Name)
	u.Object["spec"] = claimSpec(h.N)
	w.create(h.key(), u, nil)
}

// mountData: a user has a Deployment mount it.
func (w *World) mountData(h Happening) {
	claim := h.dataClaim().Name
	h.Resource = deployments
	volumes := []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": claim}}}
	u := example(deployments, h.Namespace, h.Name, 1+h.N%2)
	_ = unstructured.SetNestedSlice(u.Object, volumes, "spec", "template", "spec", "volumes") // a path of maps
	if h.N%2 == 0 {
		_ = unstructured.SetNestedField(u.Object, "Recreate", "spec", "strategy", "type") // a path of maps
	}
	if w.api.Find(h.key()) == nil {
		w.create(h.key(), u, nil)
		return
	}
	w.update(w.people, h.key(), func(d *unstructured.Unstructured) bool {
		_ = unstructured.SetNestedSlice(d.Object, volumes, "spec", "template", "spec", "volumes") // a path of maps
		return true
	})
}

// moveData: a user has a namespace of one place go elsewhere, with its data.
func (w *World) moveData(h Happening) {
	h.Cluster, h.Physical = "one", []string{"east", "west"}[h.N%2]
	h.N = 1
	w.pin(h)
}

// meddleWithData: people of a physical cluster delete a claim, or what is made beside its volume.
func (w *World) meddleWithData(h Happening) {
	p, namespace := w.cluster(h.Physical), w.physicalNamespace(h)
	gr := []schema.GroupResource{claims, pods, snapshots}[h.N%3]
	var found []kube.Object
	for _, obj := range p.api.ListNamespace(gr, "", namespace) {
		if gr == claims || isHelper(obj) {
			found = append(found, obj)
		}
	}
	if len(found) > 0 {
		obj := found[h.N%len(found)]
		_ = p.api.Delete(people, p.api.KeyOf(gr, obj), kube.DeleteOptions{UID: obj.GetUID(), Propagation: metav1.DeletePropagationBackground}) // there or not
	}
}

// isHelper says that an object is made beside a volume.
func isHelper(obj kube.Object) bool {
	u, ok := obj.(*unstructured.Unstructured)
	return ok && u != nil && u.GetLabels()[syncer.HelperLabel] != ""
}

// mounts says that a pod which has not ended mounts a claim for what a user runs.
func mounts(pod kube.Object, claim string) bool {
	return !isHelper(pod) && text(pod, "status", "phase") == string(corev1.PodRunning) && slices.Contains(mountedBy(cast(pod)), claim)
}
