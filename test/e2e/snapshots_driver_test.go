package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

const (
	snapDriver      = "snaps.example.com"
	snapProtection  = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
	driverInterval  = 200 * time.Millisecond
	provisionedNote = "pv.kubernetes.io/provisioned-by"
)

// storageBackend is storage that several physical clusters reach, with its driver: what snapshot-controller, csi-snapshotter
// and external-provisioner do there, and what a kubelet does that mounts a volume and finds a pod ended. API servers,
// the controllers of volumes and the scheduler are real.
type storageBackend struct {
	mu sync.Mutex
	// volumes and snapshots are what is in them, by handle.
	volumes, snapshots map[string]string
	// fails is what the driver says in place of making snapshots, and restoring them.
	snapFails, restoreFails string
	// forged is a handle that it gives to what it makes from now on.
	forged string
}

func newBackend() *storageBackend {
	return &storageBackend{volumes: map[string]string{}, snapshots: map[string]string{}}
}

// set changes it.
func (b *storageBackend) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// holds are the handles of volumes and of snapshots.
func (b *storageBackend) holds() (volumes, snapshots []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.volumes)), slices.Sorted(maps.Keys(b.snapshots))
}

// driver is the part of a backend on one physical cluster.
type driver struct {
	*storageBackend
	name    string
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// serve runs the driver on a physical cluster until the test ends.
func (b *storageBackend) serve(t *testing.T, on *physicalCluster) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", on.Kubectl.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 200, 200
	d := driver{storageBackend: b, name: on.name}
	if d.kube, err = kubernetes.NewForConfig(config); err == nil {
		d.dynamic, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, step := range []func(context.Context) error{d.snapshot, d.provision, d.reclaim, d.mount} {
				_ = step(ctx) // the next time
			}
			time.Sleep(driverInterval)
		}
	}()
}

func nested(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

// snapshot is what snapshot-controller and csi-snapshotter do.
func (d driver) snapshot(ctx context.Context) error {
	all, err := d.dynamic.Resource(syncer.Snapshots).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		snap := &all.Items[i]
		switch content := nested(snap, "spec", "source", "volumeSnapshotContentName"); {
		case snap.GetDeletionTimestamp() != nil:
			err = d.removeSnapshot(ctx, snap)
		case nested(snap, "status", "boundVolumeSnapshotContentName") != "":
		case content != "":
			err = d.bind(ctx, snap, content)
		default:
			err = d.take(ctx, snap)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take makes a snapshot of the volume of a claim, and a content that goes with it by the policy of its class.
func (d driver) take(ctx context.Context, snap *unstructured.Unstructured) error {
	claim, err := d.kube.CoreV1().PersistentVolumeClaims(snap.GetNamespace()).Get(ctx, nested(snap, "spec", "source", "persistentVolumeClaimName"), metav1.GetOptions{})
	if err != nil {
		return err
	}
	pv, err := d.kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	class, err := d.dynamic.Resource(syncer.SnapshotClasses).Get(ctx, nested(snap, "spec", "volumeSnapshotClassName"), metav1.GetOptions{})
	if err != nil {
		return err
	}
	handle, fails := "snap-"+string(snap.GetUID()), ""
	d.set(func() {
		if fails = d.snapFails; fails == "" && d.forged != "" {
			handle = d.forged
		} else if fails == "" {
			d.snapshots[handle] = d.volumes[pv.Spec.CSI.VolumeHandle]
		}
	})
	if fails != "" {
		return d.say(ctx, snap, map[string]any{"readyToUse": false, "error": map[string]any{"message": fails}})
	}
	content := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"driver": snapDriver, "deletionPolicy": nested(class, "deletionPolicy"), "source": map[string]any{"volumeHandle": pv.Spec.CSI.VolumeHandle},
		"volumeSnapshotRef": map[string]any{"namespace": snap.GetNamespace(), "name": snap.GetName(), "uid": string(snap.GetUID())},
	}}}
	content.SetGroupVersionKind(syncer.ContentKind)
	content.SetName("snapcontent-" + string(snap.GetUID()))
	content.SetAnnotations(map[string]string{"snapshot.storage.kubernetes.io/deletion-secret-name": "of-the-backend"})
	made, err := d.dynamic.Resource(syncer.SnapshotContents).Create(ctx, content, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	size := pv.Spec.Capacity[corev1.ResourceStorage]
	if err := d.say(ctx, made, map[string]any{"readyToUse": true, "error": nil, "snapshotHandle": handle, "restoreSize": size.Value()}); err != nil {
		return err
	}
	snap.SetFinalizers([]string{snapProtection})
	if snap, err = d.dynamic.Resource(syncer.Snapshots).Namespace(snap.GetNamespace()).Update(ctx, snap, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return d.say(ctx, snap, map[string]any{"readyToUse": true, "error": nil, "boundVolumeSnapshotContentName": made.GetName(), "restoreSize": size.String()})
}

// bind binds a content that somebody made, and its VolumeSnapshot.
func (d driver) bind(ctx context.Context, snap *unstructured.Unstructured, name string) error {
	content, err := d.dynamic.Resource(syncer.SnapshotContents).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if nested(content, "spec", "volumeSnapshotRef", "name") != snap.GetName() || nested(content, "spec", "volumeSnapshotRef", "namespace") != snap.GetNamespace() {
		return d.say(ctx, snap, map[string]any{"readyToUse": false, "error": map[string]any{"message": "the content is one of another VolumeSnapshot"}})
	}
	handle := nested(content, "spec", "source", "snapshotHandle")
	known := false
	d.set(func() { _, known = d.snapshots[handle] })
	if !known {
		return d.say(ctx, snap, map[string]any{"readyToUse": false, "error": map[string]any{"message": "the backend has no " + handle}})
	}
	if err := unstructured.SetNestedField(content.Object, string(snap.GetUID()), "spec", "volumeSnapshotRef", "uid"); err != nil {
		return err
	}
	if content, err = d.dynamic.Resource(syncer.SnapshotContents).Update(ctx, content, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := d.say(ctx, content, map[string]any{"readyToUse": true, "error": nil, "snapshotHandle": handle}); err != nil {
		return err
	}
	return d.say(ctx, snap, map[string]any{"readyToUse": true, "error": nil, "boundVolumeSnapshotContentName": name})
}

// removeSnapshot removes the content of a VolumeSnapshot that goes, and the snapshot, by its policy.
func (d driver) removeSnapshot(ctx context.Context, snap *unstructured.Unstructured) error {
	if name := nested(snap, "status", "boundVolumeSnapshotContentName"); name != "" {
		content, err := d.dynamic.Resource(syncer.SnapshotContents).Get(ctx, name, metav1.GetOptions{})
		if err == nil && nested(content, "spec", "deletionPolicy") == "Delete" {
			d.set(func() {
				if handle := nested(content, "status", "snapshotHandle"); handle == "snap-"+string(snap.GetUID()) {
					delete(d.snapshots, handle)
				}
			})
			if err := d.dynamic.Resource(syncer.SnapshotContents).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	snap.SetFinalizers(nil)
	_, err := d.dynamic.Resource(syncer.Snapshots).Namespace(snap.GetNamespace()).Update(ctx, snap, metav1.UpdateOptions{})
	return err
}

// say writes the status of a VolumeSnapshot or its content.
func (d driver) say(ctx context.Context, obj *unstructured.Unstructured, status map[string]any) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	client := d.dynamic.Resource(syncer.SnapshotContents).Namespace(obj.GetNamespace())
	if obj.GetKind() == syncer.SnapshotKind.Kind {
		client = d.dynamic.Resource(syncer.Snapshots).Namespace(obj.GetNamespace())
	}
	_, err = client.Patch(ctx, obj.GetName(), types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

// provision is what external-provisioner does: a claim of the class gets a volume once a pod that mounts it has a node,
// and one that names a VolumeSnapshot gets what is in it.
func (d driver) provision(ctx context.Context) error {
	claims, err := d.kube.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if ptr.Deref(claim.Spec.StorageClassName, "") != "snaps" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Annotations["volume.kubernetes.io/selected-node"] == "" {
			continue
		}
		content, ok := d.contentFor(ctx, claim)
		if !ok {
			continue
		}
		handle := "vol-" + string(claim.UID)
		d.set(func() { d.volumes[handle] = content })
		_, err := d.kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedNote: snapDriver}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:    corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
				AccessModes: claim.Spec.AccessModes, StorageClassName: "snaps", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: snapDriver, VolumeHandle: handle,
					VolumeAttributes: map[string]string{"account": "secret"}}},
				ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// contentFor is what a new volume has.
func (d driver) contentFor(ctx context.Context, claim *corev1.PersistentVolumeClaim) (content string, ok bool) {
	if claim.Spec.DataSource == nil {
		return "", true
	}
	snap, err := d.dynamic.Resource(syncer.Snapshots).Namespace(claim.Namespace).Get(ctx, claim.Spec.DataSource.Name, metav1.GetOptions{})
	if err != nil {
		return "", false
	}
	bound, err := d.dynamic.Resource(syncer.SnapshotContents).Get(ctx, nested(snap, "status", "boundVolumeSnapshotContentName"), metav1.GetOptions{})
	if err != nil || nested(bound, "spec", "volumeSnapshotRef", "uid") != string(snap.GetUID()) {
		return "", false
	}
	d.set(func() {
		if content, ok = d.snapshots[nested(bound, "status", "snapshotHandle")]; d.restoreFails != "" {
			ok = false
		}
	})
	return content, ok
}

// reclaim removes volumes of claims that are gone, by their policy.
func (d driver) reclaim(ctx context.Context) error {
	all, err := d.kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		pv := &all.Items[i]
		if pv.Annotations[provisionedNote] != snapDriver || pv.Status.Phase != corev1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		d.set(func() { delete(d.volumes, pv.Spec.CSI.VolumeHandle) })
		if err := d.kube.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// mount is what a kubelet does with pods that mount what was restored: they end once the claim has a volume.
func (d driver) mount(ctx context.Context) error {
	all, err := d.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: syncer.HelperLabel})
	if err != nil {
		return err
	}
	for i := range all.Items {
		pod := &all.Items[i]
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		status := corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}},
		}}}
		pod.Status = status
		if _, err := d.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// fill writes into all volumes, as an application does.
func (b *storageBackend) fill(content string) {
	b.set(func() {
		for handle := range b.volumes {
			b.volumes[handle] = content + " of " + handle
		}
	})
}

// contentOf is what the volume of a claim has, and its handle.
func (b *storageBackend) contentOf(ctx context.Context, on *physicalCluster, namespace, claim string) (handle, content string, err error) {
	name, err := on.In(namespace).Run(ctx, "get", "persistentvolumeclaim", claim, "-o", "jsonpath={.spec.volumeName}")
	if err != nil {
		return "", "", err
	}
	if handle, err = on.Run(ctx, "get", "persistentvolume", name, "-o", "jsonpath={.spec.csi.volumeHandle}"); err != nil {
		return "", "", fmt.Errorf("claim %s on %s: %w", claim, on.name, err)
	}
	b.set(func() { content = b.volumes[handle] })
	return handle, content, nil
}
