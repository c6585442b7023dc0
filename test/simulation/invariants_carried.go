package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold after every write, of what Manifests carry.
const (
	// CarriedStays: what is carried is deleted, or given up, when its Manifest goes or leaves; and deleted
	// only if the Manifest says so.
	CarriedStays = "what is carried stays without an order"
	// CarriedIsGone: a Manifest is acknowledged as removed when nothing is there with its mark.
	CarriedIsGone = "what was carried is gone, or free"
	// OthersStay: what somebody else has at its place is left alone, unless the Manifest adopts it.
	OthersStay = "what is carried takes nothing over"
)

// carried checks what a syncer does at a place where something is carried, and reports whether it is one.
func (l *ledger) carried(p *physical, e kube.Event) bool {
	at := l.world.carriedAt(e.Key)
	if len(at) == 0 {
		return false
	}
	switch {
	case !isSyncer(e.By):
	case e.Old == nil:
		l.carries(p, e)
	case e.New == nil || e.New.GetDeletionTimestamp() != nil && e.Old.GetDeletionTimestamp() == nil:
		l.dropsCarried(p, e)
	default:
		l.changesCarried(p, e, slices.ContainsFunc(at, func(c carriage) bool { return c.adopt }))
	}
	if e.New != nil && l.isCarried(e.New) { // from now on: what is taken over was somebody else's before
		l.marked[e.New.GetUID()] = true
	}
	return true
}

func (l *ledger) isCarried(obj kube.Object) bool {
	_, ok := syncer.MarkOf(manifests, obj)
	return ok
}

// carries checks that there is a record before anything is made.
func (l *ledger) carries(p *physical, e kube.Event) {
	m, ok := syncer.MarkOf(manifests, e.New)
	if !ok {
		l.world.fail(OnlyOurs, "%s made %s without the mark of a Manifest", p.name, e.Key)
		return
	}
	record := kube.Key{Resource: copies, Cluster: m.Cluster, Namespace: m.Namespace, Name: syncer.CopyName(manifests, m.Name, p.name)}
	c, ok := l.world.api.Find(record).(*placementv1alpha1.Copy)
	if !l.unrecorded[m.UID] && l.turnedBack == 0 && (!ok || c.Spec.Object.UID != m.UID || c.Status.State == placementv1alpha1.CopyRemoved && c.Status.Reason != "Forgotten") {
		l.world.fail(RecordFirst, "%s was made on %s for %s, of which there is no Copy", e.Key, p.name, m.UID)
	}
}

// dropsCarried checks that what is deleted was ours, is to go, and is not to be kept.
func (l *ledger) dropsCarried(p *physical, e kube.Event) {
	m, ok := syncer.MarkOf(manifests, e.Old)
	if o := l.world.orphan(p, e.Old.GetUID()); o != nil && (o.Spec.Order == fleetv1alpha1.OrphanRemove || o.Spec.Order == fleetv1alpha1.OrphanDiscard) {
		return
	}
	switch {
	case !ok && !l.marked[e.Old.GetUID()]:
		l.world.fail(OthersStay, "%s %s on %s is somebody else's, and was deleted", e.Key, e.Old.GetUID(), p.name)
	case !ok:
	case !l.mayRemove(m.UID, p.name):
		l.world.fail(CarriedStays, "%s on %s was deleted, and %s exists and shall be there", e.Key, p.name, m.UID)
	case l.keeps(m.UID):
		l.world.fail(CarriedStays, "%s on %s was deleted, and %s says Keep", e.Key, p.name, m.UID)
	}
}

// changesCarried checks that what is written is ours, or is adopted, and that it is given up by an order only.
func (l *ledger) changesCarried(p *physical, e kube.Event, adopts bool) {
	before, had := syncer.MarkOf(manifests, e.Old)
	now, has := syncer.MarkOf(manifests, e.New)
	if o := l.world.orphan(p, e.Old.GetUID()); o != nil && o.Spec.Order != "" {
		return
	}
	switch {
	case !had && !l.marked[e.Old.GetUID()] && !(adopts && has && l.adopts(now.UID)):
		l.world.fail(OthersStay, "%s %s on %s is somebody else's, and was written for %v", e.Key, e.Old.GetUID(), p.name, now)
	case had && has && before.Name != now.Name:
		l.world.fail(OthersStay, "%s on %s was carried by %s, and is by %s", e.Key, p.name, before.Name, now.Name)
	case had && !has && !l.mayRemove(before.UID, p.name):
		l.world.fail(CarriedStays, "%s on %s was given up, and %s exists and shall be there", e.Key, p.name, before.UID)
	}
}

// keeps says that a Manifest never said that what it carries is deleted, adopts that it takes something over.
func (l *ledger) keeps(manifest types.UID) bool {
	versions := l.versions[manifest]
	return len(versions) > 0 && !slices.ContainsFunc(versions, func(v *unstructured.Unstructured) bool {
		return text(v, "spec", "removal") == string(fleetv1alpha1.RemovalDelete)
	})
}

func (l *ledger) adopts(manifest types.UID) bool {
	return slices.ContainsFunc(l.versions[manifest], func(v *unstructured.Unstructured) bool { return part(v, "spec")["adopt"] == true })
}

// carriedRemoved checks an acknowledgement.
func (l *ledger) carriedRemoved(p *physical, c *placementv1alpha1.Copy) {
	for _, obj := range l.world.carriedFor(p, c.Spec.Object.UID) {
		if !l.returned[obj.GetUID()] {
			l.world.fail(CarriedIsGone, "%s %s is acknowledged as removed from %s, and %s is there", objectOf(c), c.Spec.Object.UID, p.name, obj.GetName())
		}
	}
}

// carriedFor is what a physical cluster has with the mark of a Manifest.
func (w *World) carriedFor(p *physical, manifest types.UID) (out []kube.Object) {
	for _, c := range w.carriages() {
		obj := p.api.Find(c.below())
		if obj == nil || slices.Contains(out, obj) {
			continue
		}
		if m, ok := syncer.MarkOf(manifests, obj); ok && m.UID == manifest {
			out = append(out, obj)
		}
	}
	return out
}

// carriedConverged: what a Manifest carries is where it is to be, or its Copy says what people have there.
func (w *World) carriedConverged(key kube.Key, obj *unstructured.Unstructured) {
	if key.Resource != manifests {
		return // of a Namespace of root nothing is made
	}
	i := slices.IndexFunc(w.carriages(), func(c carriage) bool {
		return c.gvk.Kind == text(obj, "spec", "object", "kind") && c.name == text(obj, "spec", "object", "metadata", "name")
	})
	for _, name := range targetsOf(obj).Names() {
		p := w.cluster(name)
		c, _ := w.api.Find(kube.Key{Resource: copies, Cluster: key.Cluster, Namespace: key.Namespace, Name: syncer.CopyName(manifests, key.Name, name)}).(*placementv1alpha1.Copy)
		if p.dead || !targetsOf(obj)[name].Keeps() || w.ledger.turnedBack > 0 && len(w.orphansOf(p)) > 0 {
			continue
		}
		below := cast(p.api.Find(w.carriages()[i].below()))
		switch {
		case c == nil || c.Spec.Object.UID != obj.GetUID():
			w.fail(Converges, "%s %s has no Copy for %s: %v", key, obj.GetUID(), name, c)
		case c.Status.State == placementv1alpha1.CopyFailed && w.cannotBeCarried(p, w.carriages()[i], below, obj.GetName()):
		case c.Status.State != placementv1alpha1.CopySynced || c.Status.AppliedGeneration != obj.GetGeneration():
			w.fail(Converges, "the Copy of %s (generation %d) on %s is %s: %s %s, generation %d", key, obj.GetGeneration(), name, c.Status.State, c.Status.Reason, c.Status.Message, c.Status.AppliedGeneration)
		case below == nil || below.GetLabels()["example.com/version"] != text(obj, "spec", "object", "metadata", "labels", "example.com/version"):
			w.fail(Converges, "%s is carried to %s, where there is %s", key, name, describe(below))
		}
	}
}

// cannotBeCarried: people, or another Manifest, have its place, or there is no namespace for it.
func (w *World) cannotBeCarried(p *physical, c carriage, below *unstructured.Unstructured, name string) bool {
	if below == nil {
		namespace := p.api.Find(kube.Key{Resource: namespaces, Name: c.namespace})
		return c.namespace != "" && (namespace == nil || namespace.GetDeletionTimestamp() != nil)
	}
	m, ok := syncer.MarkOf(manifests, below)
	return !ok && !c.adopt || ok && m.Name != name
}

// noneCarried: at rest nothing has the mark of a Manifest that is gone, or shall not be there.
func (w *World) noneCarried(p *physical) {
	if !w.manifests || p.rewound || w.ledger.turnedBack > 0 {
		return
	}
	for _, c := range w.carriages() {
		obj := p.api.Find(c.below())
		if obj == nil || !w.ledger.isCarried(obj) || w.orphan(p, obj.GetUID()) != nil {
			continue
		}
		m, _ := syncer.MarkOf(manifests, obj)
		_, manifest := w.api.ByUID(m.UID)
		if manifest == nil && !w.ledger.forced[m.UID] {
			w.fail(Converges, "%s on %s is left of the Manifest %s, which is gone", c.below(), p.name, m.UID)
		} else if manifest != nil && !targetsOf(manifest)[p.name].Keeps() {
			w.fail(Converges, "%s on %s is left of %s, which shall not be there: %s", c.below(), p.name, m.Name, targetsText(manifest))
		}
	}
}
