package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	volumecontent "github.com/atoll-dev/atoll/pkg/volume/content"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// dataChanged has the controllers of StatefulSets and snapshots look at what a change concerns.
func (p *physical) dataChanged(e kube.Event) {
	if !p.world.data {
		return
	}
	for _, obj := range []kube.Object{e.Old, e.New} {
		switch {
		case obj == nil || e.Old == nil && obj == e.Old:
		case e.Key.Resource == snapshots:
			for _, content := range p.api.List(snapshotContents) {
				p.work.add(p.api.KeyOf(snapshotContents, content))
			}
			for _, claim := range p.api.ListNamespace(claims, "", e.Key.Namespace) {
				p.work.add(p.api.KeyOf(claims, claim))
			}
		case e.Key.Resource == snapshotContents:
			p.work.add(kube.Key{Resource: snapshots, Namespace: text(obj, "spec", "volumeSnapshotRef", "namespace"), Name: text(obj, "spec", "volumeSnapshotRef", "name")})
		case e.Key.Resource == claims:
			for _, s := range p.api.ListNamespace(snapshots, "", e.Key.Namespace) {
				p.work.add(p.api.KeyOf(snapshots, s))
			}
		}
	}
	if e.New == nil && (e.Key.Resource == claims || e.Key.Resource == pods) { // a name is free
		for _, set := range p.api.ListNamespace(statefulSets, "", e.Key.Namespace) {
			p.work.add(p.api.KeyOf(statefulSets, set))
		}
	}
}

// makeSnapshotClass is what an admin of a physical cluster does where snapshots move data.
func (p *physical) makeSnapshotClass() {
	if !p.world.data {
		return
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "driver": driver, "deletionPolicy": "Delete"}}
	u.SetName(movesClass)
	p.must(p.api.Create(controllers, snapshotClasses, u))
}

// halfData is what is in a volume into which not all was copied.
const halfData = -1

// helper is a pod that reads, fills or mounts a volume. One that fills gets what the other one reads, as long as
// the control plane passes that on; at times it fails in the middle.
func (p *physical) helper(key kube.Key, pod *unstructured.Unstructured) (time.Duration, error) {
	if text(pod, "status", "phase") == "" {
		return time.Second, p.status(key, pod, map[string]any{
			"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		})
	}
	args := helperArgs(pod)
	if text(pod, "status", "phase") != string(corev1.PodRunning) || args[0] == string(syncer.RoleSend) {
		return 0, nil
	}
	if args[0] == string(syncer.RoleMount) {
		return 0, p.status(key, pod, ended("", string(corev1.PodSucceeded)))
	}
	from := p.world.sending(p, types.UID(args[2]))
	into := p.world.stored[handleOf(p.boundTo(pod.GetNamespace(), mountedBy(pod)[0]))]
	if from == nil || into == nil {
		return time.Second, nil
	}
	switch into.data = halfData; p.world.rng.IntN(4) {
	case 0:
		return 0, p.status(key, pod, ended("", string(corev1.PodFailed)))
	case 1:
		return time.Second, nil
	}
	into.data = from.data
	sum, _ := json.Marshal(volumecontent.Sum{Digest: strings.Repeat("0", 56) + fmt.Sprintf("%08x", from.data), Entries: 1}) // a Sum can be
	return 0, p.status(key, pod, ended(string(sum), string(corev1.PodSucceeded)))
}

func helperArgs(pod *unstructured.Unstructured) []string {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	return args
}

func ended(message, phase string) map[string]any {
	code := int64(0)
	if phase == string(corev1.PodFailed) {
		code = 1
	}
	return map[string]any{"phase": phase, "containerStatuses": []any{map[string]any{
		"name": "copy", "state": map[string]any{"terminated": map[string]any{"exitCode": code, "message": message}},
	}}}
}

// sending is the volume of which the data of a claim go to a physical cluster now, as the control plane passes
// them on; nil if there is none.
func (w *World) sending(to *physical, claim types.UID) *stored {
	_, logical := w.api.ByUID(claim)
	if logical == nil {
		return nil
	}
	targets := targetsOf(logical)
	v := targets[to.name].Volume
	if v == nil || !v.Copied || !targets[to.name].Keeps() || targets[v.From].State != placementv1alpha1.TargetStateDraining {
		return nil
	}
	from := w.cluster(v.From)
	for _, obj := range from.api.List(pods) {
		pod := cast(obj)
		if from.dead || !isHelper(pod) || pod.GetLabels()[syncer.HelperLabel] != string(claim) || helperArgs(pod)[0] != string(syncer.RoleSend) ||
			text(pod, "status", "phase") != string(corev1.PodRunning) || pod.GetDeletionTimestamp() != nil {
			continue
		}
		return w.stored[handleOf(from.boundTo(pod.GetNamespace(), mountedBy(pod)[0]))]
	}
	return nil
}

// snapshot makes what a VolumeSnapshot is in the backend, or binds it to what is named.
func (p *physical) snapshot(key kube.Key, s *unstructured.Unstructured) error {
	if s.GetDeletionTimestamp() != nil || text(s, "status", "boundVolumeSnapshotContentName") != "" {
		return nil
	}
	name := text(s, "spec", "source", "volumeSnapshotContentName")
	if name == "" {
		name = "snapcontent-" + string(s.GetUID())
		if pv := p.boundTo(key.Namespace, text(s, "spec", "source", "persistentVolumeClaimName")); pv != nil && p.api.Find(kube.Key{Resource: snapshotContents, Name: name}) == nil {
			return p.takeSnapshot(key, s, name, pv)
		}
	}
	c := cast(p.api.Find(kube.Key{Resource: snapshotContents, Name: name}))
	if c == nil {
		return nil // it brings us back
	}
	switch text(c, "spec", "volumeSnapshotRef", "uid") {
	case "":
		bound := c.DeepCopy()
		_ = unstructured.SetNestedField(bound.Object, string(s.GetUID()), "spec", "volumeSnapshotRef", "uid") // a path of maps
		_, err := p.api.Update(controllers, snapshotContents, bound)
		return err
	case string(s.GetUID()):
		return p.status(key, s, map[string]any{"boundVolumeSnapshotContentName": name, "readyToUse": true})
	}
	return nil
}

func (p *physical) takeSnapshot(key kube.Key, s *unstructured.Unstructured, name string, pv *unstructured.Unstructured) error {
	handle := "snap-" + string(s.GetUID())
	p.world.snapshots[handle] = p.world.stored[handleOf(pv)].data
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
		"spec": map[string]any{
			"driver": driver, "deletionPolicy": "Delete", "source": map[string]any{"volumeHandle": handleOf(pv)},
			"volumeSnapshotRef": map[string]any{"namespace": key.Namespace, "name": key.Name, "uid": string(s.GetUID())},
		},
		"status": map[string]any{"snapshotHandle": handle, "readyToUse": true, "restoreSize": int64(1 << 30)},
	}}
	c.SetName(name)
	return tolerate(p.api.Create(controllers, snapshotContents, c))
}

// snapshotContent goes, with what it is in the backend, after the VolumeSnapshot that it was made for.
func (p *physical) snapshotContent(key kube.Key, c *unstructured.Unstructured) error {
	uid := text(c, "spec", "volumeSnapshotRef", "uid")
	if uid == "" || text(c, "spec", "deletionPolicy") != "Delete" {
		return nil
	}
	if _, made := p.api.ByUID(types.UID(uid)); made != nil {
		return nil
	}
	delete(p.world.snapshots, text(c, "status", "snapshotHandle"))
	return p.api.Delete(controllers, key, kube.DeleteOptions{UID: c.GetUID()})
}

// restoredFrom is what is in the volume that is made for a claim; it is not ready if that is to come from a snapshot
// which cannot be used yet.
func (p *physical) restoredFrom(claim *unstructured.Unstructured) (data int, ready bool) {
	name := text(claim, "spec", "dataSource", "name")
	if name == "" {
		return 0, true
	}
	s := p.api.Find(kube.Key{Resource: snapshots, Namespace: claim.GetNamespace(), Name: name})
	if s == nil {
		return 0, false
	}
	c := p.api.Find(kube.Key{Resource: snapshotContents, Name: text(s, "status", "boundVolumeSnapshotContentName")})
	if c == nil {
		return 0, false
	}
	handle := text(c, "spec", "source", "snapshotHandle")
	if handle == "" {
		handle = text(c, "status", "snapshotHandle")
	}
	data, ready = p.world.snapshots[handle]
	return data, ready
}

// snapshotOf is the VolumeSnapshot that a content is bound to.
func snapshotOf(content kube.Object) types.UID {
	return types.UID(text(content, "spec", "volumeSnapshotRef", "uid"))
}

// snapshotsLeft are the objects of snapshots that nothing needs at rest.
func (p *physical) snapshotsLeft() (left []kube.Object) {
	return slices.Concat(p.api.List(snapshots), p.api.List(snapshotContents))
}
