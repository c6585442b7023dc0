package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// mirrorConverged: what was mirrored still is below, and looks like this.
func (w *World) mirrorConverged(key kube.Key, obj *unstructured.Unstructured) {
	for name, t := range targetsOf(obj) {
		p := w.cluster(name)
		if p.dead {
			return
		}
		_, physical := p.api.ByUID(t.UID)
		switch {
		case physical == nil:
			w.fail(Converges, "%s mirrors %s on %s, which is gone", key, t.UID, name)
		case key.Resource == pods && text(obj, "status", "phase") != text(physical, "status", "phase"),
			key.Resource == replicaSets && number(obj, "status", "readyReplicas") != number(physical, "status", "readyReplicas"):
			w.fail(Converges, "%s has the status %v, below it is %v", key, obj.Object["status"], physical.(*unstructured.Unstructured).Object["status"])
		}
	}
}

// belowConverged: what syncers made is the copy of something, and what runs of
// ours is mirrored.
func (w *World) belowConverged(p *physical, key kube.Key, obj *unstructured.Unstructured) {
	if o := w.orphan(p, obj.GetUID()); o != nil {
		w.orphanConverged(p, key, obj, o)
		return
	}
	made, isMade := w.ledger.made[obj.GetUID()]
	if m, ok := syncer.MarkOf(key.Resource, obj); ok && labelled(obj) {
		_, logical := w.api.ByUID(m.UID)
		if w.ledger.turnedBack > 0 && len(w.orphansOf(p)) > 0 || key.Resource == namespaces && w.hasOrphans(p, key.Name) {
			return
		}
		_, anew := w.ledger.mirrorOf(p, obj.GetUID()) // a controller below keeps it
		if key.Resource == claims && obj.GetDeletionTimestamp() != nil && p.used(key.Namespace, key.Name) {
			return // its Copy says that it is being removed, and outlives what somebody took the finalizer off
		}
		if logical == nil && anew == nil && w.api.Find(keyOfMark(key.Resource, m)) == nil && !isClone(obj) {
			w.fail(Converges, "%s %s on %s belongs to %s, which is gone, and nobody says so", key, obj.GetUID(), p.name, m.UID)
		}
	}
	if isMade && w.ledger.recognizable(key, obj, made.uid) {
		logicalKey, logical := w.api.ByUID(made.uid)
		if logical == nil && (w.ledger.lost[made.uid] || w.ledger.turnedBack > 0) {
			return
		}
		if w.ledger.returned[obj.GetUID()] {
			return // it was below when a backup was made, and is nobody's copy since
		}
		if _, anew := w.ledger.mirrorOf(p, obj.GetUID()); logical == nil && anew != nil {
			return // a controller below keeps it, so it is mirrored
		}
		if logical != nil && key.Resource == namespaces && (slices.ContainsFunc(w.placementsIn(logical), w.waitsToMove) || w.runsIn(logical, p.name)) {
			return // it goes after what is in it, also after a pod that came to a unit which had left
		}
		if logical == nil {
			w.fail(Converges, "%s %s on %s is left of %s, which is gone", key, obj.GetUID(), p.name, made.uid)
		} else if t, ok := targetsOf(logical)[p.name]; !ok || !t.Keeps() && t.UID != obj.GetUID() {
			w.fail(Converges, "%s %s on %s is left of %s, which shall not be there", key, obj.GetUID(), p.name, logicalKey)
		}
		return
	}
	if !slices.Contains(observed, key.Resource) || isClone(obj) || !labelled(obj) || !w.runsOurs(p, obj) {
		return
	}
	if _, mirror := w.ledger.mirrorOf(p, obj.GetUID()); mirror == nil {
		w.fail(Converges, "%s %s runs on %s and is not mirrored", key, obj.GetUID(), p.name)
	}
}

// livesAbove says that an object below is the copy of one that exists, or belongs
// to such a copy.
func (w *World) livesAbove(p *physical, obj *unstructured.Unstructured) bool {
	if m, ok := syncer.MarkOf(resourceOf(obj), obj); ok {
		_, logical := w.api.ByUID(m.UID)
		return logical != nil
	}
	for _, r := range obj.GetOwnerReferences() {
		if _, owner := p.api.ByUID(r.UID); owner != nil {
			return w.livesAbove(p, cast(owner))
		}
	}
	return false
}

// runsOurs follows the owners of an object to a copy whose object exists and is to
// be here: what people bring back below is none. What nobody controls, and was not made as a copy, was let
// go: it is its Namespace's, unless nobody sees that it is ours.
func (w *World) runsOurs(p *physical, obj *unstructured.Unstructured) bool {
	if len(obj.GetOwnerReferences()) == 0 {
		_, marked := syncer.MarkOf(resourceOf(obj), obj)
		in := p.api.Find(kube.Key{Resource: namespaces, Name: obj.GetNamespace()})
		if marked || !labelled(obj) || resourceOf(obj) == claims || in == nil || in.GetDeletionTimestamp() != nil || !labelled(in) {
			return false // what becomes of claims is another matter, see volumesConverged
		}
		m, _ := syncer.MarkOf(namespaces, in)
		_, logical := w.api.ByUID(m.UID)
		if logical == nil || logical.GetDeletionTimestamp() != nil {
			return false
		}
		entry, here := targetsOf(logical)[p.name]
		return here && entry.Keeps()
	}
	key, owner := p.api.ByUID(obj.GetOwnerReferences()[0].UID)
	if owner == nil {
		return false
	}
	if m, ok := syncer.MarkOf(key.Resource, owner); ok {
		_, logical := w.api.ByUID(m.UID)
		if logical == nil || !labelled(owner) || isClone(owner) {
			return false
		}
		_, here := targetsOf(logical)[p.name]
		return here
	}
	return w.runsOurs(p, cast(owner))
}

// orphanConverged: what is listed as an orphan is there for as long as nobody has
// ordered otherwise.
func (w *World) orphanConverged(p *physical, key kube.Key, obj *unstructured.Unstructured, o *fleetv1alpha1.Orphan) {
	state := o.Status.State
	if len(w.carriedAt(key)) > 0 && syncer.TakesAlong(obj.GroupVersionKind().GroupKind()) {
		return // it is refused: others would lose what they have in it
	}
	if key.Resource == claims && obj.GetDeletionTimestamp() != nil && p.used(key.Namespace, key.Name) {
		return // pods mount it, as a user wants
	}
	if o.Spec.Order == fleetv1alpha1.OrphanDiscard && o.Status.Reason == "TakesOthersAlong" {
		return // so do claims of a StatefulSet
	}
	if (o.Spec.Order == fleetv1alpha1.OrphanRemove || o.Spec.Order == fleetv1alpha1.OrphanDiscard) && state != fleetv1alpha1.OrphanRefused && o.Status.Reason != "NotEmpty" {
		w.fail(Converges, "%s %s on %s is an orphan that shall go: %s %s %s", key, obj.GetUID(), p.name, state, o.Status.Reason, o.Status.Message)
	}
	if _, logical := w.api.ByUID(o.Spec.Claim.UID); (o.Spec.Order == fleetv1alpha1.OrphanRemove || o.Spec.Order == fleetv1alpha1.OrphanDiscard) &&
		state == fleetv1alpha1.OrphanRefused && logical == nil {
		w.fail(Converges, "%s %s on %s is an orphan that shall go, and is refused although what it claims is gone: %s", key, obj.GetUID(), p.name, o.Status.Message)
	}
}
