package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// stored is a volume in the backend that all physical clusters reach. It is no part of their backups.
type stored struct {
	// claim is the UID of the logical claim that it was made for.
	claim types.UID
	// policy says what becomes of it when that is gone, as its class had it.
	policy corev1.PersistentVolumeReclaimPolicy
	// once says that one place at a time may mount it.
	once bool
	// meddled says that somebody on a physical cluster deleted a claim that had it.
	meddled bool
	// gone says that the data are removed.
	gone bool
	// of is whose data these are, and data what was written last of them; see data.go.
	of   dataOf
	data int
	// keeps says that an admin keeps the volume after its data were brought elsewhere.
	keeps, brought bool
}

// Finalizers of what is used, see kube.
const (
	claimProtection  = "kubernetes.io/pvc-protection"
	volumeProtection = "kubernetes.io/pv-protection"
	provisionedBy    = "pv.kubernetes.io/provisioned-by"
)

// storageChanged has the controllers of storage look at what a change concerns.
func (p *physical) storageChanged(e kube.Event) {
	if !p.world.volumes {
		return
	}
	for _, obj := range []kube.Object{e.Old, e.New} {
		switch {
		case obj == nil:
		case e.Key.Resource == claims:
			if name := text(obj, "spec", "volumeName"); name != "" {
				p.work.add(volumeKey(name))
			}
			if e.New == nil { // it may have ended before it was bound
				for _, pv := range p.api.List(persistentVolumes) {
					if claimOf(pv) == e.Key {
						p.work.add(p.api.KeyOf(persistentVolumes, pv))
					}
				}
			}
			for _, pod := range p.api.ListNamespace(pods, "", e.Key.Namespace) {
				if slices.Contains(mountedBy(cast(pod)), e.Key.Name) {
					p.work.add(p.api.KeyOf(pods, pod))
				}
			}
		case e.Key.Resource == persistentVolumes:
			p.work.add(claimOf(obj))
		case e.Key.Resource == pods:
			for _, name := range mountedBy(cast(obj)) {
				p.work.add(kube.Key{Resource: claims, Namespace: e.Key.Namespace, Name: name})
				p.work.add(attachmentKey(p.boundTo(e.Key.Namespace, name)))
			}
		}
	}
}

// boundTo is the volume that a claim is bound to; nil if it is bound to none that is there.
func (p *physical) boundTo(namespace, name string) *unstructured.Unstructured {
	claim := p.api.Find(kube.Key{Resource: claims, Namespace: namespace, Name: name})
	if claim == nil {
		return nil
	}
	pv := cast(p.api.Find(volumeKey(text(claim, "spec", "volumeName"))))
	if pv == nil || text(pv, "spec", "claimRef", "uid") != string(claim.GetUID()) {
		return nil
	}
	return pv
}

// holder is the claim that a volume is bound to; nil if there is none, or another one.
func (p *physical) holder(pv kube.Object) *unstructured.Unstructured {
	claim := cast(p.api.Find(claimOf(pv)))
	if claim == nil || text(pv, "spec", "claimRef", "uid") != string(claim.GetUID()) {
		return nil
	}
	return claim
}

// claim binds a claim to the volume that is reserved for it, or to a new one. It is kept as long as
// pods use it.
func (p *physical) claim(key kube.Key, claim *unstructured.Unstructured) error {
	if claim.GetDeletionTimestamp() != nil {
		if !p.used(key.Namespace, key.Name) {
			p.api.RemoveFinalizer(controllers, key, claimProtection)
		}
		return nil
	}
	if name := text(claim, "spec", "volumeName"); name != "" {
		phase := "Bound"
		if p.boundTo(key.Namespace, key.Name) == nil {
			phase = "Lost"
		}
		return p.status(key, claim, map[string]any{"phase": phase})
	}
	pv := p.reservedFor(key, claim)
	switch {
	case pv == nil:
		return p.provision(key, claim)
	case text(pv, "spec", "claimRef", "uid") == "":
		reserved := pv.DeepCopy()
		_ = unstructured.SetNestedField(reserved.Object, string(claim.GetUID()), "spec", "claimRef", "uid") // a path of maps
		_, err := p.api.Update(controllers, persistentVolumes, reserved)
		return err
	}
	bound := claim.DeepCopy()
	_ = unstructured.SetNestedField(bound.Object, pv.GetName(), "spec", "volumeName") // a path of maps
	_, err := p.api.Edit(controllers, claims, bound, "controllers")
	return err
}

// reservedFor is the volume that names a claim.
func (p *physical) reservedFor(key kube.Key, claim *unstructured.Unstructured) *unstructured.Unstructured {
	for _, obj := range p.api.List(persistentVolumes) {
		uid := text(obj, "spec", "claimRef", "uid")
		if claimOf(obj) == key && (uid == "" || uid == string(claim.GetUID())) && obj.GetDeletionTimestamp() == nil {
			return cast(obj)
		}
	}
	return nil
}

// provision makes a volume for a claim, in the backend and here.
func (p *physical) provision(key kube.Key, claim *unstructured.Unstructured) error {
	c := classNamed(text(claim, "spec", "storageClassName"))
	if c == nil || c.late && !p.wantedByPod(key) {
		return nil
	}
	handle := "handle-" + string(claim.GetUID())
	s := &stored{policy: c.policy, once: slices.Contains(stringsIn(claim, "spec", "accessModes"), string(corev1.ReadWriteOnce))}
	if m, ok := syncer.MarkOf(claims, claim); ok {
		s.claim = m.UID
	}
	restored, ready := p.restoredFrom(claim)
	if !ready {
		return nil // its snapshot brings us back
	}
	s.of, s.data, s.brought, s.keeps = p.world.ledger.dataOf(key), restored, c.strategy != "", c.former == fleetv1alpha1.FormerVolumeRetain
	p.world.stored[handle] = s
	pv := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolume", "spec": map[string]any{
		"capacity": map[string]any{"storage": "1Gi"}, "accessModes": part(claim, "spec")["accessModes"], "storageClassName": c.name,
		"persistentVolumeReclaimPolicy": string(c.policy),
		"claimRef":                      map[string]any{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": key.Namespace, "name": key.Name, "uid": string(claim.GetUID())},
		"csi":                           map[string]any{"driver": driver, "volumeHandle": handle},
	}}}
	pv.SetName("pvc-" + string(claim.GetUID()))
	pv.SetAnnotations(map[string]string{provisionedBy: driver})
	return tolerate(p.api.Create(controllers, persistentVolumes, pv.DeepCopy()))
}

// wantedByPod says that a pod waits for a claim.
func (p *physical) wantedByPod(key kube.Key) bool {
	return slices.ContainsFunc(p.api.ListNamespace(pods, "", key.Namespace), func(pod kube.Object) bool {
		return text(pod, "spec", "nodeName") != "" && slices.Contains(mountedBy(cast(pod)), key.Name)
	})
}

// volume does what the reclaim policy of a volume says, once its claim is gone.
func (p *physical) volume(key kube.Key, pv *unstructured.Unstructured) error {
	released := text(pv, "spec", "claimRef", "uid") != "" && p.holder(pv) == nil
	reclaims := released && text(pv, "spec", "persistentVolumeReclaimPolicy") == string(corev1.PersistentVolumeReclaimDelete) &&
		pv.GetAnnotations()[provisionedBy] == driver
	switch {
	case p.api.Find(attachmentKey(pv)) != nil:
		return nil // its end brings us back
	case reclaims:
		p.world.reclaim(p, pv)
		if pv.GetDeletionTimestamp() == nil {
			return p.api.Delete(controllers, key, kube.DeleteOptions{UID: pv.GetUID()})
		}
		p.api.RemoveFinalizer(controllers, key, volumeProtection)
		return nil
	case pv.GetDeletionTimestamp() != nil && p.holder(pv) == nil:
		p.api.RemoveFinalizer(controllers, key, volumeProtection)
		return nil
	case released:
		return p.status(key, pv, map[string]any{"phase": "Released"})
	case text(pv, "spec", "claimRef", "uid") == "":
		return p.status(key, pv, map[string]any{"phase": "Available"})
	}
	return p.status(key, pv, map[string]any{"phase": "Bound"})
}

// reclaim: the driver removes the data of a volume.
func (w *World) reclaim(p *physical, pv kube.Object) {
	if s := w.stored[handleOf(pv)]; s != nil && !s.gone {
		s.gone = true
		w.ledger.dataGo(p, pv, s)
	}
}

// used says that a pod that runs mounts a claim.
func (p *physical) used(namespace, claim string) bool {
	return slices.ContainsFunc(p.api.ListNamespace(pods, "", namespace), func(pod kube.Object) bool {
		return text(pod, "status", "phase") == string(corev1.PodRunning) && slices.Contains(mountedBy(cast(pod)), claim)
	})
}

func attachmentKey(pv *unstructured.Unstructured) kube.Key {
	if pv == nil {
		return kube.Key{Resource: attachments}
	}
	return kube.Key{Resource: attachments, Name: "of-" + pv.GetName()}
}

// attach has the node of a pod reach its volumes, and reports whether it does.
func (p *physical) attach(pod *unstructured.Unstructured) bool {
	names := mountedBy(pod)
	for _, name := range names {
		claim := p.api.Find(kube.Key{Resource: claims, Namespace: pod.GetNamespace(), Name: name})
		if claim == nil || claim.GetDeletionTimestamp() != nil || p.boundTo(pod.GetNamespace(), name) == nil {
			return false
		}
	}
	for _, name := range names {
		pv := p.boundTo(pod.GetNamespace(), name)
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "spec": map[string]any{
			"attacher": driver, "nodeName": text(pod, "spec", "nodeName"), "source": map[string]any{"persistentVolumeName": pv.GetName()},
		}}}
		u.SetName(attachmentKey(pv).Name)
		_ = tolerate(p.api.Create(controllers, attachments, u)) // there or not
	}
	return true
}

// detachDelay is how long a node has a volume that no pod uses any more.
const detachDelay = 2 * time.Second

// detach ends what no pod uses any more.
func (p *physical) detach(key kube.Key, attachment *unstructured.Unstructured) (time.Duration, error) {
	name := text(attachment, "spec", "source", "persistentVolumeName")
	if pv := p.api.Find(volumeKey(name)); pv != nil {
		if ref := claimOf(pv); p.holder(pv) != nil && p.used(ref.Namespace, ref.Name) {
			delete(p.unused, name)
			return 0, nil
		}
	}
	since, known := p.unused[name]
	if !known {
		since = p.world.now()
		p.unused[name] = since
	}
	if left := detachDelay - p.world.now().Sub(since); left > 0 {
		return left, nil
	}
	delete(p.unused, name)
	p.work.add(volumeKey(name))
	return 0, p.api.Delete(controllers, key, kube.DeleteOptions{})
}
