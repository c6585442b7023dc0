package simulation

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/admission/syncerguard"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// acknowledged checks what is taken off an object.
func (l *ledger) acknowledged(e kube.Event) {
	if e.Old == nil {
		return
	}
	released := slices.Contains(e.Old.GetFinalizers(), placementv1alpha1.CopiesFinalizer) &&
		(e.New == nil || !slices.Contains(e.New.GetFinalizers(), placementv1alpha1.CopiesFinalizer))
	for _, name := range targetsOf(e.Old).Names() {
		entry := targetsOf(e.Old)[name]
		_, kept := placementv1alpha1.Target{}, false
		if e.New != nil {
			_, kept = targetsOf(e.New)[name]
		}
		if entry.State == placementv1alpha1.TargetObserved || kept && !released {
			continue
		}
		if entry.NoCopy() {
			if copied := l.world.availableOn(e.Key, e.Old, name); copied >= 0 {
				l.world.fail(FinalizersWait, "%s %s has no copy to wait for on %s, but there is one", e.Key, e.Old.GetUID(), name)
			}
			continue
		}
		if p := l.world.cluster(name); p == nil || p.forgotten() || l.forced[e.Old.GetUID()] {
			continue
		}
		if !l.isRemoved(e.Key, e.Old.GetUID(), name) {
			l.world.fail(FinalizersWait, "%s %s was released although %s has not acknowledged", e.Key, e.Old.GetUID(), name)
		}
	}
}

func (l *ledger) isRemoved(key kube.Key, uid types.UID, target string) bool {
	k := kube.Key{Resource: copies, Cluster: key.Cluster, Namespace: namespaceOf(key).Name, Name: syncer.CopyName(key.Resource, key.Name, target)}
	c, ok := l.world.api.Find(k).(*placementv1alpha1.Copy)
	return ok && c.Spec.Object.UID == uid && c.Status.State == placementv1alpha1.CopyRemoved
}

// copyWritten checks acknowledgements, and notes what Copies record.
func (l *ledger) copyWritten(e kube.Event) {
	if e.New == nil || !isSyncer(e.By) {
		return
	}
	c := e.New.(*placementv1alpha1.Copy)
	uid := c.Spec.Object.UID
	l.record(c)
	l.carriesRuns(c)
	if e.Old != nil {
		l.backLate(e.Old.(*placementv1alpha1.Copy), c)
	}
	if e.Old != nil && e.Old.(*placementv1alpha1.Copy).Spec.Object.UID != uid {
		l.world.fail(OneOwner, "%s was about %s and is about %s", e.Key, e.Old.(*placementv1alpha1.Copy).Spec.Object.UID, uid)
	}
	if c.Status.State != placementv1alpha1.CopyRemoved {
		return
	}
	l.carriedRemoved(l.world.cluster(c.Spec.PhysicalCluster), c)
	for _, obj := range l.copiesOf(l.world.cluster(c.Spec.PhysicalCluster), objectOf(c).Resource, uid) {
		l.world.fail(RemovedIsGone, "%s %s is acknowledged as removed from %s, but %s is there", objectOf(c), uid, c.Spec.PhysicalCluster, obj.GetUID())
	}
}

// record notes the physical UID that a Copy records.
func (l *ledger) record(c *placementv1alpha1.Copy) {
	uid := c.Spec.Object.UID
	if c.Status.PhysicalUID == "" {
		return
	}
	if l.recorded[uid] == nil {
		l.recorded[uid] = map[types.UID]bool{}
	}
	l.recorded[uid][c.Status.PhysicalUID] = true
}

// copiesOf are the copies of a UID on a target, as far as a syncer can know them:
// by their mark, or because their UID was recorded.
func (l *ledger) copiesOf(p *physical, gr schema.GroupResource, uid types.UID) []kube.Object {
	var out []kube.Object
	for _, obj := range p.api.List(gr) {
		if isClone(obj) || l.returned[obj.GetUID()] || l.born[obj.GetUID()] >= max(1, l.looked[place{p.name, p.api.KeyOf(gr, obj)}]) {
			continue
		}
		m, marked := syncer.MarkOf(gr, obj)
		if marked && m.ControlPlane == controlPlane && m.UID == uid || l.recorded[uid][obj.GetUID()] {
			out = append(out, obj)
		}
	}
	return out
}

// clonePrefix begins the names of namespaces into which people copied ours.
const clonePrefix = "clone-"

func isClone(obj kube.Object) bool {
	return strings.HasPrefix(obj.GetNamespace(), clonePrefix) || strings.HasPrefix(obj.GetName(), clonePrefix)
}

// decides checks a decision against what it was made from.
func (l *ledger) decides(s placement.Snapshot, u placement.Unit, d placement.Decision) {
	for _, c := range s.PhysicalClusters {
		ready := meta.IsStatusConditionTrue(c.Status.Conditions, fleetv1alpha1.ConditionReady)
		if slices.Contains(d.PhysicalClusters, c.Name) && !slices.Contains(u.Decided, c.Name) && (c.Spec.Drain.Requested || c.Spec.Unschedulable || c.Spec.Forget || !ready) {
			l.world.fail(DecisionsStand, "%s was chosen, but may receive nothing", c.Name)
		}
	}
	l.theirs(s, u, d)
	if len(u.Decided) > 0 {
		return // what stands may be kept
	}
	u.Decided = d.PhysicalClusters
	if v := placement.Verify(s, u); d.Possible() && !v.Satisfied {
		l.world.fail(DecisionsStand, "%s", v.Message)
	}
}

// decided checks that a decision stays, or is followed by another with the transition
// from all that the unit had.
func (l *ledger) decided(e kube.Event) {
	if e.New == nil {
		l.ended(e.Old.(*placementv1alpha1.Placement))
		return
	}
	p := e.New.(*placementv1alpha1.Placement)
	if decided(p) == nil || len(p.OwnerReferences) == 0 {
		return
	}
	unit, now := unitID{p.OwnerReferences[0].UID, p.Name}, strings.Join(decided(p), ",")
	var leaving []string
	if t := p.Spec.Transition; t != nil {
		leaving = t.From
	}
	if before, ok := l.decisions[unit]; ok && before != now {
		for _, name := range append(strings.Split(before, ","), l.leaving[unit]...) {
			if !slices.Contains(decided(p), name) && !slices.Contains(leaving, name) {
				l.world.fail(DecisionsStand, "unit %s was decided for %s and is decided for %s, with no way from %s", unit, before, now, name)
			}
		}
	}
	l.decisions[unit], l.leaving[unit] = now, leaving
	if removes := p.Spec.Transition != nil && p.Spec.Transition.Phase == placementv1alpha1.TransitionRemoving; !removes {
		delete(l.removing, unit)
	} else if _, known := l.removing[unit]; !known {
		l.removing[unit] = l.world.now()
	}
	for _, name := range decided(p) {
		l.everDecided[everDecided{unit.namespace, name}] = true
	}
}

// ended forgets a unit of objects, which may be made again elsewhere.
func (l *ledger) ended(p *placementv1alpha1.Placement) {
	if p.Name == placementv1alpha1.NamespaceUnit || len(p.OwnerReferences) == 0 {
		return
	}
	unit := unitID{p.OwnerReferences[0].UID, p.Name}
	delete(l.decisions, unit)
	delete(l.leaving, unit)
	delete(l.removing, unit)
}

// leaves says that a unit of a Namespace leaves a physical cluster.
func (l *ledger) leaves(namespace types.UID, name string) bool {
	for unit, names := range l.leaving {
		if unit.namespace == namespace && slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// removalDecided is when the units of a Namespace that leave a physical cluster began to
// remove there, the earliest of them; now, if none has.
func (l *ledger) removalDecided(namespace types.UID, name string) time.Time {
	at := l.world.now()
	for unit, since := range l.removing {
		if unit.namespace == namespace && slices.Contains(l.leaving[unit], name) && since.Before(at) {
			at = since
		}
	}
	return at
}

// targeted checks the targets and the physical name that an object gets.
func (l *ledger) targeted(e kube.Event) {
	namespace := l.world.api.Find(namespaceOf(e.Key))
	if e.Key.Resource == namespaces {
		namespace = e.New
		name := e.New.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
		if before := l.physicalNames[e.New.GetUID()]; before != "" && before != name {
			l.world.fail(DecisionsStand, "%s had the physical name %s and has %q", e.Key, before, name)
		}
		l.physicalNames[e.New.GetUID()] = name
	}
	if namespace == nil || isObserved(e.New) {
		return
	}
	before := placementv1alpha1.Targets{}
	if e.Old != nil {
		before = targetsOf(e.Old)
	}
	l.replaced(e, namespace.GetUID(), before)
	l.withdrawn(e, namespace.GetUID(), before)
	l.settled(e, before)
	l.shared(e, before)
	l.scaled(e, namespace.GetUID(), before)
	for _, name := range targetsOf(e.New).Names() {
		if _, had := before[name]; !had && !l.everDecided[everDecided{namespace.GetUID(), name}] {
			l.world.fail(DecisionsStand, "%s got the target %s, for which no unit of its namespace %s was ever decided", e.Key, name, namespace.GetUID())
		}
	}
}

// everDecided is a physical cluster that a namespace was decided for at some time: a
// server that is behind may still stamp it, and the copy leaves again.
type everDecided struct {
	namespace types.UID
	name      string
}

// withdrawn checks that nobody is sent to where a Service leaves: what has begun to be removed there
// by a move is in its status no more.
func (l *ledger) withdrawn(e kube.Event, namespace types.UID, before placementv1alpha1.Targets) {
	if e.Key.Resource != services || e.New.GetDeletionTimestamp() != nil || l.world.withdraws {
		return
	}
	for name, target := range targetsOf(e.New) {
		if target.State != placementv1alpha1.TargetStateRemoving || !before[name].Keeps() || !l.leaves(namespace, name) {
			continue
		}
		published, _, _ := unstructured.NestedSlice(cast(e.New).Object, "status", "loadBalancer", "ingress")
		for _, address := range published {
			if host, _ := address.(map[string]any)["hostname"].(string); strings.HasPrefix(host, name+".") {
				l.world.fail(WithdrawnFirst, "%s leaves %s, and its status still has %s", e.Key, name, host)
			}
		}
	}
}

// replaced checks that a Deployment leaves a target by a transition only when it is as
// available elsewhere. What people withdraw is theirs. What becomes available there after the
// removal was decided comes too late, and what is destroyed elsewhere after it was not foreseen.
func (l *ledger) replaced(e kube.Event, namespace types.UID, before placementv1alpha1.Targets) {
	if e.Key.Resource != deployments || e.New.GetDeletionTimestamp() != nil || l.world.withdraws {
		return
	}
	now := targetsOf(e.New)
	for name, target := range now {
		if target.State != placementv1alpha1.TargetStateRemoving || !before[name].Keeps() || !l.leaves(namespace, name) || endsFirst(e.New) || endsFirst(e.Old) {
			continue // until this write, if a user writes something else in the very moment of the removal
		}
		decided := l.removalDecided(namespace, name).Add(-deciding)
		least, _ := l.available.since(decided, e.New.GetUID(), name)
		had := min(l.world.availableOn(e.Key, e.New, name), least)
		best, divided := int64(-1), isDivided(now)
		for other, t := range now {
			_, most := l.available.since(decided, e.New.GetUID(), other)
			switch {
			case t.Keeps() && divided: // each has a part
				best = max(best, 0) + max(0, most)
			case t.Keeps():
				best = max(best, most)
			}
		}
		wish := number(e.New, "spec", "replicas")
		for _, scaler := range l.world.scalersOf(e.Key) { // they may have come, and have scaled it down
			wish = min(wish, number(scaler, "spec", "minReplicas"))
		}
		if best < min(had, wish) {
			l.world.fail(ReplacedFirst, "%s leaves %s, where %d pods are available, for %v, where at most %d are", e.Key, name, had, now, best)
		}
	}
}

// endsFirst says that a Deployment may have to end before it begins elsewhere, as it mounts claims, or has to, as it must
// not run twice.
func endsFirst(obj kube.Object) bool {
	return obj != nil && (len(mountedBy(cast(obj), "spec", "template")) > 0 || text(obj, "spec", "strategy", "type") == "Recreate")
}

// availableOn is how many pods of a Deployment its Copy says are available; -1 if it has
// none that is in place.
func (w *World) availableOn(key kube.Key, obj kube.Object, target string) int64 {
	c, ok := w.api.Find(kube.Key{
		Resource: copies, Cluster: key.Cluster, Namespace: key.Namespace, Name: syncer.CopyName(key.Resource, key.Name, target),
	}).(*placementv1alpha1.Copy)
	if !ok || c.Spec.Object.UID != obj.GetUID() || c.Status.State != placementv1alpha1.CopySynced {
		return -1
	}
	return availableIn(c)
}

func availableIn(c *placementv1alpha1.Copy) int64 {
	n, _ := observedIn(c)["availableReplicas"].(float64)
	return int64(n)
}

func observedIn(c *placementv1alpha1.Copy) (status map[string]any) {
	if c.Status.Observed != nil {
		_ = json.Unmarshal(c.Status.Observed.Raw, &status) // ours
	}
	return status
}

// noteAvailable notes what a Copy says is available; -1 if it is not in place.
func (l *ledger) noteAvailable(e kube.Event) {
	n := int64(-1)
	c, ok := e.New.(*placementv1alpha1.Copy)
	switch {
	case ok && c.Status.State == placementv1alpha1.CopySynced:
		n = availableIn(c)
	case !ok:
		if c, ok = e.Old.(*placementv1alpha1.Copy); !ok {
			return
		}
	}
	l.available.note(l.world.now(), c.Spec.Object.UID, c.Spec.PhysicalCluster, n)
}

// generationRises checks a status whose observed generation rises.
func (l *ledger) generationRises(e kube.Event) {
	old, now := number(e.Old, "status", "observedGeneration"), number(e.New, "status", "observedGeneration")
	if now <= old {
		return
	}
	if now > e.New.GetGeneration() {
		l.world.fail(TrueGeneration, "%s has generation %d and observed %d", e.Key, e.New.GetGeneration(), now)
	}
	if l.world.scales && e.Key.Resource == deployments {
		return // the replicas that a version has below are not in it
	}
	uid := e.New.GetUID()
	for _, name := range targetsOf(e.New).Names() {
		if !targetsOf(e.New)[name].Keeps() {
			continue
		}
		seen := false
		for _, v := range l.versions[uid] {
			if v.GetGeneration() >= now && targetsText(v) != "" && l.seen[sighted{uid, name, l.digest(e.Key, v, name)}] {
				seen = true
				break
			}
		}
		if !seen {
			l.world.fail(TrueGeneration, "%s is said to have observed generation %d, but %s has not", e.Key, now, name)
		}
	}
}

// digest is the one of the copy of a version of an object.
func (l *ledger) digest(key kube.Key, v *unstructured.Unstructured, target string) string {
	namespace := l.world.api.Find(namespaceOf(key))
	out, _ := syncer.Transform(v, syncer.Placing{
		Ref:          syncer.Ref{Kind: kindOf(key.Resource), Cluster: key.Cluster, Namespace: key.Namespace, Name: key.Name},
		ControlPlane: controlPlane, Namespace: namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation],
		Target: targetsOf(v)[target], RuntimeClass: l.world.cluster(target).classOnce(syncer.RuntimeHandler(v)),
	})
	return out.GetAnnotations()[syncer.AppliedAnnotation]
}

// asksControlPlane checks what a syncer asks of the control plane.
func (l *ledger) asksControlPlane(c *call) {
	r := c.req
	if c.line.target == "" || r.subresource == "binding" || r.name == "" && r.method == http.MethodDelete {
		return
	}
	w := syncerguard.Write{
		Kinds:  kinds,
		Target: c.line.target, Cluster: r.scope.Cluster, Resource: r.res.GroupResource(), Subresource: r.subresource,
		Namespace: r.namespace, Name: r.name,
	}
	if old := l.world.api.Find(r.key()); old != nil && r.name != "" {
		w.Old = old
	}
	switch r.method {
	case http.MethodPost:
		w.Verb = syncerguard.Create
	case http.MethodPut, http.MethodPatch:
		w.Verb = syncerguard.Update
	case http.MethodDelete:
		w.Verb = syncerguard.Delete
		if o, err := deleteOptions(r.body); err == nil && w.Old != nil && o.UID != "" && o.UID != w.Old.GetUID() {
			w.Old = nil // as below: another one has its name by now
		}
	}
	if r.method == http.MethodPost || r.method == http.MethodPut {
		obj, err := r.res.decode(r.body)
		if err != nil {
			l.world.fail(Permitted, "%s: %v", r, err)
			return
		}
		w.Object, w.Name = obj, obj.GetName()
	}
	if w.Old != nil && w.Verb != syncerguard.Create && w.Object != nil && w.Object.GetUID() != "" && w.Object.GetUID() != w.Old.GetUID() {
		w.Old = nil // it is about one that is gone, and will be refused
	}
	if w.Old != nil && w.Object != nil && stamp.WasMirrored(w.Old) && w.Object.GetResourceVersion() != w.Old.GetResourceVersion() {
		return // it was a mirror when it was read, and will be refused
	}
	if w.Verb == syncerguard.Delete && w.Old != nil && stamp.WasMirrored(w.Old) {
		return // it was a mirror as far as the syncer knows, of what is gone below, and will be refused
	}
	if err := syncerguard.Check(w); err != nil && l.turnedBack == 0 { // it may not know yet that a backup was restored
		l.world.fail(Permitted, "%s %s %s/%s: %v", w.Verb, w.Resource, w.Namespace, w.Name, err)
	}
}
