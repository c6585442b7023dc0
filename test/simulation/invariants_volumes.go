package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold after every write, of volumes.
const (
	// DataStay: the data of a volume go after the claim that they were made for, and after its last
	// copy; never if the class keeps them.
	DataStay = "data stay as long as they are needed"
	// KeptWhileShared: a volume that several physical clusters have is removed with the claim on none.
	KeptWhileShared = "a volume that several have is kept"
	// OneVolume: a claim that many mount has the same volume wherever it is bound.
	OneVolume = "a claim that many mount has one volume"
	// OneMount: what one place at a time may mount is mounted on one physical cluster.
	OneMount = "one physical cluster mounts a volume"
)

// storage sees every change of a physical cluster where volumes are claimed.
func (l *ledger) storage(p *physical, e kube.Event) {
	if !l.world.volumes || e.By == backup {
		return
	}
	switch e.Key.Resource {
	case claims:
		l.claimed(p, e)
	case persistentVolumes:
		if e.New != nil {
			l.kept(p, e.New)
		}
	case attachments:
		if e.Old == nil {
			l.mounted(p, cast(e.New))
		}
	}
}

// claimed checks which volume a claim is bound to, and notes who deletes one.
func (l *ledger) claimed(p *physical, e kube.Event) {
	if e.Old != nil && e.Old.GetDeletionTimestamp() == nil && (e.New == nil || e.New.GetDeletionTimestamp() != nil) && !isSyncer(e.By) {
		pv := p.volumeOf(e.Old)
		if pv == nil { // it is not bound yet to what was made for it
			pv = p.volumeWith("handle-" + string(e.Old.GetUID()))
		}
		if s := l.world.stored[handleOf(pv)]; s != nil {
			s.meddled = true
			l.meddled(pv, s)
		}
	}
	if e.By != controllers || e.New == nil || text(e.New, "spec", "volumeName") == "" || e.Old != nil && text(e.Old, "spec", "volumeName") != "" {
		return
	}
	m, ok := syncer.MarkOf(claims, e.New)
	if !ok || isOnce(e.New) || l.turnedBack > 0 {
		return // a backup from before the first one was chosen has another one chosen
	}
	handle := handleOf(p.volumeOf(e.New))
	for _, q := range l.world.present() {
		other := q.copyOfClaim(m.UID)
		if q == p || other == nil || text(other, "spec", "volumeName") == "" {
			continue
		}
		if has := handleOf(q.volumeOf(other)); has != "" && has != handle {
			l.world.fail(OneVolume, "%s %s has the volume %s on %s and %s on %s", e.Key, m.UID, has, q.name, handle, p.name)
		}
	}
}

// kept checks the reclaim policy of a volume that others have, too.
func (l *ledger) kept(p *physical, pv kube.Object) {
	handle := handleOf(pv)
	for _, q := range l.world.present() {
		other := q.volumeWith(handle)
		if q == p || other == nil || l.returned[other.GetUID()] || l.orphaned(q, other) || other.GetDeletionTimestamp() != nil && q.holder(other) == nil {
			continue
		}
		for _, one := range []kube.Object{pv, other} {
			if text(one, "spec", "persistentVolumeReclaimPolicy") != string(corev1.PersistentVolumeReclaimRetain) {
				l.world.fail(KeptWhileShared, "%s and %s have the volume %s, and it would go with %s", p.name, q.name, handle, one.GetName())
			}
		}
	}
}

// mounted checks that nobody else mounts what one place may mount.
func (l *ledger) mounted(p *physical, attachment *unstructured.Unstructured) {
	handle := handleOf(p.api.Find(volumeKey(text(attachment, "spec", "source", "persistentVolumeName"))))
	if s := l.world.stored[handle]; s == nil || !s.once {
		return
	}
	for _, q := range l.world.present() {
		if other := q.volumeWith(handle); q != p && other != nil && q.api.Find(attachmentKey(other)) != nil {
			l.world.fail(OneMount, "%s mounts the volume %s, and %s does", p.name, handle, q.name)
		}
	}
}

// dataGo checks that nobody needs the data of a volume that are removed.
func (l *ledger) dataGo(p *physical, pv kube.Object, s *stored) {
	handle := handleOf(pv)
	if s.policy == corev1.PersistentVolumeReclaimRetain {
		l.world.fail(DataStay, "the data of %s were removed by %s, and their class keeps them", handle, p.name)
	}
	for _, q := range l.world.present() {
		if other := q.volumeWith(handle); q != p && other != nil && q.holder(other) != nil && !l.returned[q.holder(other).GetUID()] && !l.orphaned(q, other) {
			l.world.fail(DataStay, "the data of %s were removed by %s, and %s has the claim", handle, p.name, q.name)
		}
	}
	l.lastOne(p, handle, s)
	if _, claim := l.world.api.ByUID(s.claim); claim != nil && !s.brought && claim.GetDeletionTimestamp() == nil && !s.meddled && l.turnedBack == 0 {
		l.world.fail(DataStay, "the data of %s were removed by %s, and the claim %s exists: %s", handle, p.name, s.claim, targetsText(claim))
	}
}

// orphaned says that a volume is bound to the copy of a claim which a restored backup does not know: an admin decides
// about that.
func (l *ledger) orphaned(p *physical, pv *unstructured.Unstructured) bool {
	claim := p.holder(pv)
	if l.turnedBack == 0 || claim == nil {
		return false
	}
	m, _ := syncer.MarkOf(claims, claim)
	_, live := l.world.api.ByUID(m.UID)
	return live == nil
}

// present are the physical clusters that nobody has given up.
func (w *World) present() (out []*physical) {
	for _, p := range w.clusters {
		if !p.dead && !p.forgotten() {
			out = append(out, p)
		}
	}
	return out
}

// volumeOf is the volume that a claim names; nil if it is not there.
func (p *physical) volumeOf(claim kube.Object) *unstructured.Unstructured {
	return cast(p.api.Find(volumeKey(text(claim, "spec", "volumeName"))))
}

// volumeWith is the volume with a handle; nil if there is none.
func (p *physical) volumeWith(handle string) *unstructured.Unstructured {
	for _, obj := range p.api.List(persistentVolumes) {
		if handleOf(obj) == handle {
			return cast(obj)
		}
	}
	return nil
}

// copyOfClaim is the copy of a claim; nil if there is none.
func (p *physical) copyOfClaim(uid types.UID) *unstructured.Unstructured {
	for _, obj := range p.api.List(claims) {
		if m, ok := syncer.MarkOf(claims, obj); ok && m.UID == uid && !isClone(obj) {
			return cast(obj)
		}
	}
	return nil
}

func isOnce(claim kube.Object) bool {
	return stringsIn(claim, "spec", "accessModes")[0] == string(corev1.ReadWriteOnce)
}

// meddledWith says that somebody below deleted a copy of a claim that had a volume.
func (w *World) meddledWith(claim types.UID) bool {
	for _, s := range w.stored {
		if s.claim == claim && s.meddled {
			return true
		}
	}
	return false
}

// awaitsVolume says that a claim waits on a target for the volume that another one has not got, or cannot say.
func (w *World) awaitsVolume(key kube.Key, obj *unstructured.Unstructured, target string) bool {
	targets := targetsOf(obj)
	if key.Resource != claims || targets[target].State != placementv1alpha1.TargetStateWaiting {
		return false
	}
	for _, name := range targets.Names() {
		p := w.cluster(name)
		if !targets[name].Keeps() || p.dead {
			continue
		}
		c, _ := w.api.Find(kube.Key{Resource: copies, Cluster: key.Cluster, Namespace: key.Namespace, Name: syncer.CopyName(claims, key.Name, name)}).(*placementv1alpha1.Copy)
		if c != nil && c.Status.State == placementv1alpha1.CopySynced && c.Status.Volume != nil && c.Status.Volume.Source != nil {
			return false
		}
		if below := p.copyOfClaim(obj.GetUID()); below != nil && p.volumeOf(below) != nil && c != nil && c.Status.State == placementv1alpha1.CopySynced {
			return false
		}
	}
	return true
}
