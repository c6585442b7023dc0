package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold after every write, of data that move.
const (
	// DataFollow: who mounts a claim of one place finds what was written last there, wherever that was: no empty
	// volume, no half of a copy, and none of before.
	DataFollow = "data follow their claim"
	// OneWriter: what runs writes into a claim of one place on one physical cluster at a time.
	OneWriter = "one physical cluster writes the data of a claim"
	// LastOneStays: what was written last is in a volume, whichever, as long as its claim exists.
	LastOneStays = "the last volume with the data stays"
	// ClaimComesBack: at rest no volume that is kept for a move has lost its claim: others that people delete come back,
	// too.
	ClaimComesBack = "a claim comes back to its volume"
	// NothingBeside: at rest nothing is left of what brought data elsewhere.
	NothingBeside = "nothing is left beside volumes"
)

// claimName is the claim of a Namespace, whoever made it, and wherever it is.
type claimName struct {
	namespace types.UID
	name      string
}

// dataOf says whose data are in a volume: a claim may be deleted with its data, and made again.
type dataOf struct {
	claimName
	epoch int
}

// writing is what was written last for a claim.
type writing struct {
	last, epoch int
	// lost says that others took the data away.
	lost bool
}

// dataOf are the data of a claim below; nothing if they are of no namespace of ours, or in several places at once.
func (l *ledger) dataOf(key kube.Key) dataOf {
	if !l.world.data || l.world.divides || l.world.doubles {
		return dataOf{}
	}
	for uid, physical := range l.physicalNames {
		if _, namespace := l.world.api.ByUID(uid); physical == key.Namespace && namespace != nil && namespace.GetAnnotations()["kcp.io/cluster"] == "one" {
			name := claimName{uid, key.Name}
			return dataOf{name, l.writing(name).epoch}
		}
	}
	return dataOf{}
}

func (l *ledger) writing(name claimName) *writing {
	if l.written[name] == nil {
		l.written[name] = &writing{}
	}
	return l.written[name]
}

// follows says that what was written for a claim has to be in a volume: nobody has taken it away from outside.
func (l *ledger) follows(s *stored) bool {
	if s == nil || s.of.name == "" || l.turnedBack > 0 || l.world.withdraws || l.world.lostOne() ||
		slices.ContainsFunc(l.world.clusters, func(p *physical) bool { return p.rewound || p.emptied || p.forgotten() }) {
		return false
	}
	w := l.writing(s.of.claimName)
	return w.epoch == s.of.epoch && !w.lost
}

// claimWritten sees a claim above go, and which one above is that of a volume which a StatefulSet claimed.
func (l *ledger) claimWritten(e kube.Event) {
	if e.Key.Resource != claims || !l.world.data {
		return
	}
	if e.New != nil && e.New.GetDeletionTimestamp() == nil {
		for name, t := range targetsOf(e.New) {
			p := l.world.cluster(name)
			if p == nil {
				continue
			}
			if t.UID != "" && t.State != placementv1alpha1.TargetObserved {
				l.marked[t.UID] = true // what was mirrored is a copy from now on
			}
			if _, below := p.api.ByUID(t.UID); t.UID != "" && below != nil {
				if s := l.world.stored[handleOf(p.volumeOf(below))]; s != nil {
					s.claim = e.New.GetUID()
				}
			}
		}
		return
	}
	if e.Old == nil || e.Old.GetDeletionTimestamp() != nil || isSyncer(e.By) {
		return // a syncer that takes a mirror off changes nothing below
	}
	if namespace := l.world.api.Find(namespaceOf(e.Key)); namespace != nil {
		w := l.writing(claimName{namespace.GetUID(), e.Key.Name})
		*w = writing{epoch: w.epoch + 1}
	}
}

// meddled: somebody on a physical cluster deletes a claim. If its volume is kept for a move, nothing is lost by that.
func (l *ledger) meddled(pv *unstructured.Unstructured, s *stored) {
	if s.of.name != "" && pv.GetAnnotations()[syncer.ReclaimPolicyAnnotation] == "" {
		l.writing(s.of.claimName).lost = true
	}
}

// writesTo: a pod begins, and writes into its volumes. It reads first what is there.
func (p *physical) writesTo(pod *unstructured.Unstructured) {
	l := p.world.ledger
	for _, name := range mountedBy(pod) {
		s := p.world.stored[handleOf(p.boundTo(pod.GetNamespace(), name))]
		if s == nil || !l.follows(s) {
			continue
		}
		l.alone(p, pod, s)
		if w := l.writing(s.of.claimName); s.data != w.last {
			l.world.fail(DataFollow, "the pod %s/%s on %s finds %d in the volume of the claim %s, and %d was written last", pod.GetNamespace(), pod.GetName(), p.name, s.data, name, w.last)
		}
		l.write(s)
	}
}

// writesLast: a pod ends, and has written until then.
func (p *physical) writesLast(pod *unstructured.Unstructured) {
	for _, name := range mountedBy(pod) {
		if s := p.world.stored[handleOf(p.boundTo(pod.GetNamespace(), name))]; s != nil && p.world.ledger.follows(s) {
			p.world.ledger.write(s)
		}
	}
}

func (l *ledger) write(s *stored) {
	l.writes++
	s.data, l.writing(s.of.claimName).last = l.writes, l.writes
}

// alone checks that nobody elsewhere writes for the same claim.
func (l *ledger) alone(p *physical, pod *unstructured.Unstructured, s *stored) {
	if !s.once {
		return
	}
	for _, q := range l.world.present() {
		if q == p {
			continue
		}
		for _, other := range q.api.List(pods) {
			if !mounts(other, s.of.name) {
				continue
			}
			if t := l.world.stored[handleOf(q.boundTo(other.GetNamespace(), s.of.name))]; t != nil && t.of == s.of {
				l.world.fail(OneWriter, "the pod %s/%s on %s mounts the claim %s, and %s/%s does on %s", pod.GetNamespace(), pod.GetName(), p.name, s.of.name, other.GetNamespace(), other.GetName(), q.name)
			}
		}
	}
}

// lastOne checks, as the data of a volume are removed, that they are somewhere else.
func (l *ledger) lastOne(p *physical, handle string, s *stored) {
	if !l.follows(s) || s.data <= 0 || s.data != l.writing(s.of.claimName).last {
		return
	}
	for _, other := range l.world.stored {
		if other != s && other.of == s.of && !other.gone && other.data == s.data {
			return
		}
	}
	l.world.fail(LastOneStays, "the data of %s were removed by %s, and no other volume has what was written last for the claim %s", handle, p.name, s.of.name)
}

// keptConverged: a volume that is kept where its claim is to be has that, unless the claim has come back with another
// one that has the same data: what an admin keeps is from before.
func (w *World) keptConverged(p *physical) {
	if !w.data || w.ledger.turnedBack > 0 || p.rewound || w.lostOne() {
		return
	}
	for _, pv := range p.api.List(persistentVolumes) {
		s := w.stored[handleOf(pv)]
		if s == nil || s.gone || pv.GetAnnotations()[syncer.ReclaimPolicyAnnotation] == "" || p.holder(pv) != nil {
			continue
		}
		_, logical := w.api.ByUID(s.claim)
		if logical == nil || logical.GetDeletionTimestamp() != nil {
			continue
		}
		if has := w.stored[handleOf(p.boundTo(claimOf(pv).Namespace, claimOf(pv).Name))]; has != nil && has != s && w.lastIn(has) {
			continue
		}
		if t, here := targetsOf(logical)[p.name]; here && t.Keeps() && w.lastIn(s) {
			w.fail(ClaimComesBack, "the volume %s on %s is kept, and its claim %s is not there: %s", pv.GetName(), p.name, claimOf(pv).Name, targetsText(logical))
		}
	}
}

// lastIn says that what was written last for its claim is in a volume.
func (w *World) lastIn(s *stored) bool {
	return w.ledger.follows(s) && s.data == w.ledger.writing(s.of.claimName).last
}

// besideConverged: what brings data elsewhere is gone.
func (w *World) besideConverged(p *physical) {
	if !w.data || w.ledger.turnedBack > 0 || p.rewound || w.lostOne() {
		return
	}
	left := p.snapshotsLeft()
	for _, pod := range p.api.List(pods) {
		if isHelper(pod) {
			left = append(left, pod)
		}
	}
	for _, obj := range left {
		if _, s := p.api.ByUID(snapshotOf(obj)); s != nil {
			continue // it is there for that
		}
		claim := types.UID(obj.GetLabels()[syncer.HelperLabel])
		key, logical := w.api.ByUID(claim)
		if logical != nil && slices.ContainsFunc(w.placementsIn(w.api.Find(namespaceOf(key))), w.waitsToMove) {
			continue // it is needed still
		}
		w.fail(NothingBeside, "%s %s/%s is left on %s", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetNamespace(), obj.GetName(), p.name)
	}
}
