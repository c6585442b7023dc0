package simulation

import (
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// below sees every change of a physical cluster.
func (l *ledger) below(p *physical, e kube.Event) {
	l.last = p.name + ": " + e.By + ": " + e.Key.String()
	if e.By == people && e.Old == nil {
		l.born[e.New.GetUID()] = l.world.step()
	}
	l.leadsBelow(p, e)
	l.scheduled(p, e)
	if l.carried(p, e) {
		return
	}
	if !slices.Contains(copied, e.Key.Resource) || isSupply(e.Old) || isSupply(e.New) || isHelper(e.Old) || isHelper(e.New) {
		return
	}
	if isSyncer(e.By) {
		switch {
		case e.Old == nil:
			l.makes(p, e)
		case e.New == nil || e.New.GetDeletionTimestamp() != nil && e.Old.GetDeletionTimestamp() == nil:
			l.removes(p, e)
		default:
			l.changes(p, e)
		}
	}
	if e.New == nil {
		if _, ok := syncer.MarkOf(e.Key.Resource, e.Old); ok && e.Key.Namespace != "" {
			l.removed[p.name] = append(l.removed[p.name], e)
		}
		return
	}
	if m, ok := syncer.MarkOf(e.Key.Resource, e.New); ok && m.ControlPlane == controlPlane {
		l.marked[e.New.GetUID()] = true
	}
	l.observes(p, e.New)
}

// rewound notes what a backup brings back to a physical cluster.
func (l *ledger) rewound(p *physical, b *kube.Backup) {
	for key, obj := range b.Objects {
		if now := p.api.Find(key); now == nil || now.GetUID() != obj.GetUID() {
			l.returned[obj.GetUID()] = true
		}
	}
}

// ours says that a syncer made an object, or that the object has said so in full.
func (l *ledger) ours(key kube.Key, obj kube.Object) bool {
	_, made := l.made[obj.GetUID()]
	return made || l.marked[obj.GetUID()]
}

// recognizable says that a syncer can know an object to be the copy of a UID:
// people have not taken the mark off before its UID was recorded.
func (l *ledger) recognizable(key kube.Key, obj kube.Object, uid types.UID) bool {
	m, ok := syncer.MarkOf(key.Resource, obj)
	return ok && m.ControlPlane == controlPlane || l.recorded[uid][obj.GetUID()]
}

func (l *ledger) makes(p *physical, e kube.Event) {
	m, ok := syncer.MarkOf(e.Key.Resource, e.New)
	if !ok {
		l.world.fail(OnlyOurs, "%s made %s without a mark", p.name, e.Key)
		return
	}
	object := keyOfMark(e.Key.Resource, m)
	for _, obj := range p.api.List(e.Key.Resource) {
		other, made := l.made[obj.GetUID()]
		if made && other.uid == m.UID && !l.lost[m.UID] && !l.returned[obj.GetUID()] && obj.GetUID() != e.New.GetUID() {
			l.world.fail(OneOwner, "%s has a second copy on %s: %s", m.UID, p.name, e.Key)
		}
	}
	l.made[e.New.GetUID()] = origin{e.Key.Resource, m.UID, p.name}
	l.ruled(p, e.Key, m)
	l.sameRuntime(p, e.Key, cast(e.New), m.UID)
	name := kube.Key{Resource: copies, Cluster: m.Cluster, Namespace: m.Namespace, Name: syncer.CopyName(e.Key.Resource, m.Name, p.name)}
	c, ok := l.world.api.Find(name).(*placementv1alpha1.Copy)
	if l.unrecorded[m.UID] {
		return // the record went when a backup was restored, perhaps in the middle of a pass
	}
	if ok && c.Spec.Object.UID == m.UID && c.Status.State == placementv1alpha1.CopyRemoved && c.Status.Reason == "Forgotten" {
		return // an admin gave the physical cluster up in the middle of a pass
	}
	if !ok || c.Spec.Object.UID != m.UID || c.Status.State == placementv1alpha1.CopyRemoved {
		l.world.fail(RecordFirst, "%s was made on %s for %s %s, of which there is no Copy", e.Key, p.name, object, m.UID)
	}
}

func (l *ledger) changes(p *physical, e kube.Event) {
	if !l.ours(e.Key, e.Old) {
		l.world.fail(OnlyOurs, "%s %s on %s is not ours, and was written", e.Key, e.Old.GetUID(), p.name)
		return
	}
	before, had := syncer.MarkOf(e.Key.Resource, e.Old)
	now, has := syncer.MarkOf(e.Key.Resource, e.New)
	if o := l.world.orphan(p, e.Old.GetUID()); has && o != nil && o.Spec.Order == fleetv1alpha1.OrphanAdopt {
		l.made[e.Old.GetUID()] = origin{e.Key.Resource, now.UID, p.name}
		return
	}
	if !has || had && before != now {
		l.world.fail(OneOwner, "%s %s on %s was the copy of %v and is that of %v", e.Key, e.Old.GetUID(), p.name, before, now)
	}
	if o, ok := l.made[e.Old.GetUID()]; ok && o.uid != now.UID {
		l.world.fail(OneOwner, "%s %s on %s was made for %v and is the copy of %v", e.Key, e.Old.GetUID(), p.name, o.uid, now.UID)
	}
}

func (l *ledger) removes(p *physical, e kube.Event) {
	uid := e.Old.GetUID()
	if l.deletedUp[uid] {
		return // somebody deleted its mirror
	}
	if !l.ours(e.Key, e.Old) {
		if _, counterpart := l.mirrorOf(p, uid); counterpart != nil {
			l.world.fail(AbsenceIsNoDelete, "%s %s on %s was deleted, and nobody deleted its mirror", e.Key, uid, p.name)
			return
		}
		l.world.fail(OnlyOurs, "%s %s on %s is not ours, and was deleted", e.Key, uid, p.name)
		return
	}
	of := l.made[uid].uid
	o := l.world.orphan(p, uid)
	switch {
	case o != nil && o.Spec.Order == fleetv1alpha1.OrphanDiscard:
		if c := l.world.recordOf(p, e.Key.Resource, e.Old); c != nil && c.Status.State == placementv1alpha1.CopySynced && c.Status.PhysicalUID == uid {
			l.world.fail(AbsenceIsNoDelete, "%s %s on %s was discarded as an orphan, but it is the copy of %s", e.Key, uid, p.name, o.Spec.Claim.UID)
		}
		return
	case o != nil && o.Spec.Order == fleetv1alpha1.OrphanRemove:
		if _, live := l.world.api.ByUID(o.Spec.Claim.UID); live != nil && l.turnedBack == 0 {
			l.world.fail(AbsenceIsNoDelete, "%s %s on %s was removed as an orphan, but %s exists", e.Key, uid, p.name, o.Spec.Claim.UID)
		}
		return
	case l.unknownAbove(p, e):
		l.world.fail(OrphansWait, "%s %s on %s was deleted, which nothing above knows of, and nobody has ordered that", e.Key, uid, p.name)
		return
	}
	if m, ok := syncer.MarkOf(e.Key.Resource, e.Old); ok {
		of = m.UID
	}
	switch {
	case !l.mayRemove(of, p.name) && !l.remade(e, of):
		l.world.fail(AbsenceIsNoDelete, "%s %s on %s was deleted, but %s exists and shall be there", e.Key, uid, p.name, of)
	case e.Key.Resource == namespaces:
		l.removesNamespace(p, e, of)
	}
}

// unknownAbove says that an object below has a mark, and that there is neither a
// record nor an object of that name.
func (l *ledger) unknownAbove(p *physical, e kube.Event) bool {
	m, ok := syncer.MarkOf(e.Key.Resource, e.Old)
	if !ok || l.turnedBack > 0 || l.forced[m.UID] {
		return false
	}
	return l.world.api.Find(keyOfMark(e.Key.Resource, m)) == nil && l.world.recordOf(p, e.Key.Resource, e.Old) == nil
}

// recordOf is the Copy of the object that something below has the mark of; nil if there is none.
func (w *World) recordOf(p *physical, resource schema.GroupResource, below kube.Object) *placementv1alpha1.Copy {
	m, ok := syncer.MarkOf(resource, below)
	if !ok {
		return nil
	}
	c, _ := w.api.Find(kube.Key{Resource: copies, Cluster: m.Cluster, Namespace: m.Namespace, Name: syncer.CopyName(resource, m.Name, p.name)}).(*placementv1alpha1.Copy)
	return c
}

// remade: a Job whose template cannot be changed is made again.
func (l *ledger) remade(e kube.Event, of types.UID) bool {
	if e.Key.Resource != jobs && e.Key.Resource != pods {
		return false
	}
	versions := l.versions[of]
	return slices.ContainsFunc(versions, func(v *unstructured.Unstructured) bool { return v.GetGeneration() != versions[0].GetGeneration() })
}

// leavesNamespace: a namespace that leaves a physical cluster goes after what is in it.
func (l *ledger) leavesNamespace(p *physical, e kube.Event, logical kube.Object) {
	key := l.world.api.KeyOf(namespaces, logical)
	for _, obj := range l.world.api.List(copies) {
		c := obj.(*placementv1alpha1.Copy)
		if k := l.world.api.KeyOf(copies, c); k.Cluster != key.Cluster || k.Namespace != key.Name || c.Spec.PhysicalCluster != p.name ||
			c.Spec.Object.Resource == "namespaces" || c.Status.State == placementv1alpha1.CopyRemoved || c.Status.PhysicalUID == "" {
			continue
		}
		l.world.fail(AbsenceIsNoDelete, "%s on %s was deleted before the copy of %s %s", e.Key, p.name, c.Spec.Object.Kind, c.Spec.Object.Name)
	}
}

// removesNamespace: what is in it goes along.
func (l *ledger) removesNamespace(p *physical, e kube.Event, of types.UID) {
	_, logical := l.world.api.ByUID(of)
	emptied := func(v *unstructured.Unstructured) bool {
		return v.GetDeletionTimestamp() != nil && len(stringsIn(v, "spec", "finalizers")) == 0
	}
	if logical != nil && targetsOf(logical)[p.name].State == placementv1alpha1.TargetStateRemoving {
		l.leavesNamespace(p, e, logical)
		return
	}
	if logical != nil && len(stringsIn(logical, "spec", "finalizers")) > 0 && logical.GetDeletionTimestamp() != nil &&
		// What was said before a backup was restored may still be carried out.
		!(l.turnedBack > 0 && slices.ContainsFunc(l.versions[of], emptied)) {
		l.world.fail(AbsenceIsNoDelete, "%s on %s was deleted before the content of %s", e.Key, p.name, of)
	}
	for _, gr := range content {
		for _, obj := range p.api.ListNamespace(gr, "", e.Key.Name) {
			if o, ok := l.made[obj.GetUID()]; ok && !l.lost[o.uid] && !l.mayRemove(o.uid, p.name) {
				l.world.fail(AbsenceIsNoDelete, "%s on %s was deleted with %s in it, which shall be there", e.Key, p.name, obj.GetName())
			}
		}
	}
}

// mirrorOf is the logical object that mirrors one below.
func (l *ledger) mirrorOf(p *physical, uid types.UID) (kube.Key, kube.Object) {
	for _, gr := range observed {
		for _, obj := range l.world.api.List(gr) {
			if t := targetsOf(obj)[p.name]; t.State == placementv1alpha1.TargetObserved && t.UID == uid {
				return l.world.api.KeyOf(gr, obj), obj
			}
		}
	}
	return kube.Key{}, nil
}

// observes notes which digests the controllers of a physical cluster have acted on.
func (l *ledger) observes(p *physical, obj kube.Object) {
	u := cast(obj)
	digest := u.GetAnnotations()[syncer.AppliedAnnotation]
	if digest == "" {
		return
	}
	list := l.applied[u.GetUID()]
	if len(list) == 0 || list[len(list)-1].digest != digest {
		list = append(list, digestAt{digest, u.GetGeneration()})
		l.applied[u.GetUID()] = list
	}
	of := types.UID(u.GetAnnotations()[placementv1alpha1.UIDAnnotation])
	for _, d := range list {
		if d.generation <= number(u, "status", "observedGeneration") {
			l.seen[sighted{of, p.name, d.digest}] = true
		}
	}
}

// asks sees what a syncer is about to do on a physical cluster.
func (l *ledger) asks(f *front, c *call) {
	if c.line.syncer == nil {
		return
	}
	r := c.req
	if meant := c.line.syncer.physical; f.physical != meant {
		l.world.fail(OnlyMeant, "%s writes %s to %s", c.line.syncer.name, r.key(), f.name)
	}
	l.holdsLease(c)
	if p := f.physical; p.waitsEmpty() {
		l.world.fail(EmptiedWaits, "%s is written to %s, which was emptied, and nobody has confirmed that", r.key(), p.name)
	}
	switch r.method {
	case http.MethodDelete:
		if o, err := deleteOptions(r.body); err != nil || o.UID == "" {
			l.world.fail(OnlyOurs, "%s is deleted by name only: %v", r.key(), err)
		}
	case http.MethodPatch:
		if types.PatchType(r.content) != types.ApplyPatchType {
			return
		}
		obj, err := r.res.decode(r.body)
		if err != nil {
			return // it will be refused
		}
		if obj.GetUID() == "" && obj.GetResourceVersion() == "" {
			l.world.fail(OnlyOurs, "%s is applied by name only, whatever is there", r.key())
		}
		gr := r.res.GroupResource()
		if len(l.world.carriedAt(r.key())) > 0 {
			gr = manifests
		}
		if m, ok := syncer.MarkOf(gr, obj); !ok || m.ControlPlane != controlPlane {
			l.world.fail(OnlyOurs, "%s is applied without our mark", r.key())
		}
	}
}

// deletesUp: what is taken off above is gone or going below, or has lost its
// owner.
func (l *ledger) deletesUp(c *call, key kube.Key, mirror object) {
	if c.line.target == "" || mirror.GetDeletionTimestamp() != nil {
		return
	}
	p := l.world.cluster(c.line.target)
	entry := targetsOf(mirror)[p.name]
	o, _ := deleteOptions(c.req.body)
	if o.UID != "" && o.UID != mirror.GetUID() || o.Version != "" && o.Version != mirror.GetResourceVersion() {
		return // a conflict
	}
	_, obj := p.api.ByUID(entry.UID)
	if obj != nil && text(obj, "spec", "nodeName") != "" && text(mirror, "spec", "nodeName") == "" {
		return // a syncer may not bind a pod: it mirrors it anew, with its node
	}
	if obj != nil && obj.GetDeletionTimestamp() == nil {
		l.world.fail(RunningIsUp, "%s is taken off, but %s runs on %s", key, entry.UID, p.name)
	}
}

// holdsLease checks who writes below. What was sent by somebody who does not wait
// for the answer any more was sent before.
func (l *ledger) holdsLease(c *call) {
	if c.abandoned() || l.turnedBack > 0 {
		return
	}
	p := c.line.syncer.physical
	lease := l.world.api.Find(kube.Key{Resource: leases, Cluster: scope.Root, Namespace: fleetv1alpha1.LeaseNamespace, Name: p.name})
	if lease == nil {
		return
	}
	holder := text(lease, "spec", "holderIdentity")
	renewed, err := time.Parse(time.RFC3339Nano, text(lease, "spec", "renewTime"))
	if err != nil || holder == "" || holder == c.line.syncer.name {
		return
	}
	valid := time.Duration(number(lease, "spec", "leaseDurationSeconds")) * time.Second
	if l.world.now().Before(renewed.Add(valid)) {
		l.world.fail(OneSyncer, "%s writes %s, while %s holds the Lease until %s", c.line.syncer.name, c.req.key(), holder, renewed.Add(valid))
	}
}
