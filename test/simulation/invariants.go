package simulation

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/admission/syncerguard"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold after every write.
const (
	// AbsenceIsNoDelete: nothing is deleted below unless the object with that UID
	// is being deleted, its entry says Removing, or the UID exists no more.
	AbsenceIsNoDelete = "absence is never a delete"
	// OnlyOurs: the syncer writes and deletes only what it or its predecessor
	// made, or what carries the whole mark of the object, and by UID.
	OnlyOurs = "only what is ours is written"
	// OneOwner: a copy belongs to one UID for life, and a UID has one copy on a
	// target.
	OneOwner = "there is one owner"
	// RecordFirst: there is a Copy before anything is made below.
	RecordFirst = "the record comes first"
	// RemovedIsGone: a Copy is Removed only when nothing of its UID is below.
	RemovedIsGone = "removed means gone"
	// FinalizersWait: finalizer and entries go only after acknowledgement.
	FinalizersWait = "finalizers wait for acknowledgement"
	// TrueGeneration: the observed generation rises only to what every target has
	// observed.
	TrueGeneration = "the observed generation is true"
	// DecisionsStand: a namespace has one decision, by the rules, and its objects
	// have no other targets; the name of the physical namespace never changes.
	DecisionsStand = "decisions stand"
	// Permitted: the syncer asks only for what its identity may do.
	Permitted = "syncers do what they may"
	// OneSyncer: of several syncers of a physical cluster the one that holds its Lease
	// writes there.
	OneSyncer = "one syncer works at a time"
	// OnlyMeant: a syncer writes to its own physical cluster, whoever answers.
	OnlyMeant = "only the cluster that is meant is written"
	// OrphansWait: what nothing above knows of is removed by order of an admin only.
	OrphansWait = "orphans wait for an order"
	// EmptiedWaits: a cluster that lost all that is ours is not written before an admin
	// has confirmed that.
	EmptiedWaits = "an emptied cluster waits"
	// RunningIsUp: a syncer takes off only the mirror of something that is gone,
	// is going, or is mirrored anew.
	RunningIsUp = "what runs is shown"
)

// What has to hold in the end.
const (
	// ComesToRest: without trouble the writes end.
	ComesToRest = "the world comes to rest"
	// Converges: what users asked for is what there is, on both sides.
	Converges = "the world converges"
	// CoresArePure: nobody changed an object that others hold.
	CoresArePure = "shared objects are not changed"
)

// ledger knows what really happened.
type ledger struct {
	world *World
	last  string

	// instructed has (UID, target) of which the removal was asked for.
	instructed map[instruction]bool
	// deletedUp has the physical UIDs of which the mirror was deleted.
	deletedUp map[types.UID]bool
	// made has what syncers made: physical UID -> the object that it is the copy of.
	made map[types.UID]origin
	// recorded are the physical UIDs that a Copy records for a logical UID.
	recorded map[types.UID]map[types.UID]bool
	// decisions by the UID of the Namespace, physical names too.
	decisions     map[types.UID]string
	physicalNames map[types.UID]string
	// marked are the physical UIDs that have had our mark: a syncer may not have seen
	// yet that people took it off.
	marked map[types.UID]bool
	// versions of logical objects by UID.
	versions map[types.UID][]*unstructured.Unstructured
	// applied has, by physical UID, which digest was there from which generation;
	// seen has the digests that controllers have observed.
	applied map[types.UID][]digestAt
	seen    map[sighted]bool
	// returned are the physical UIDs that a backup of a physical cluster brought back.
	returned map[types.UID]bool
	// born and looked have when people made an object, and when a syncer last looked
	// at a place.
	born   map[types.UID]int
	looked map[place]int
	// removed are the copies that went, by physical cluster.
	removed map[string][]kube.Event
	// refused is when what a syncer asked for was refused lately.
	refused map[attempt][]time.Time
	// forced are the UIDs that somebody released behind our back, lost those that a
	// restored backup does not know.
	forced, lost map[types.UID]bool
	// turnedBack is when a backup was restored, unrecorded are the UIDs whose Copies
	// that changed.
	turnedBack int
	unrecorded map[types.UID]bool
}

type instruction struct {
	uid    types.UID
	target string
}

type place struct {
	target string
	key    kube.Key
}

type origin struct {
	gr     schema.GroupResource
	uid    types.UID
	target string
}

type digestAt struct {
	digest     string
	generation int64
}

type sighted struct {
	uid            types.UID
	target, digest string
}

func newLedger(w *World) *ledger {
	return &ledger{
		world: w, marked: map[types.UID]bool{}, returned: map[types.UID]bool{}, instructed: map[instruction]bool{}, deletedUp: map[types.UID]bool{}, made: map[types.UID]origin{},
		recorded: map[types.UID]map[types.UID]bool{}, decisions: map[types.UID]string{}, physicalNames: map[types.UID]string{},
		versions: map[types.UID][]*unstructured.Unstructured{}, applied: map[types.UID][]digestAt{}, seen: map[sighted]bool{},
		born: map[types.UID]int{}, looked: map[place]int{}, removed: map[string][]kube.Event{}, refused: map[attempt][]time.Time{}, forced: map[types.UID]bool{}, lost: map[types.UID]bool{}, unrecorded: map[types.UID]bool{},
	}
}

// audit sees every change of the control plane.
func (w *World) audit(e kube.Event) {
	l := w.ledger
	l.last = e.By + ": " + e.Key.String()
	if e.By == backup {
		l.bringBack(e)
		return
	}
	if e.By == impatient {
		l.forced[e.Old.GetUID()] = true
	}
	switch e.Key.Resource {
	case copies:
		l.copyWritten(e)
		return
	case placements:
		l.decided(e)
		return
	}
	if !slices.Contains(copied, e.Key.Resource) {
		return
	}
	if e.New == nil && e.Old.GetDeletionTimestamp() == nil && !isObserved(e.Old) && slices.Contains(e.Old.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
		l.world.fail(FinalizersWait, "%s went without a deletion", e.Key)
	}
	l.acknowledged(e)
	l.instruct(e)
	if e.New == nil {
		return
	}
	l.versions[e.New.GetUID()] = append(l.versions[e.New.GetUID()], cast(e.New))
	l.targeted(e)
	if e.Old != nil && e.Key.Resource == deployments {
		l.generationRises(e)
	}
}

func isObserved(obj metav1.Object) bool {
	for _, t := range targetsOf(obj) {
		if t.State == placementv1alpha1.TargetObserved {
			return true
		}
	}
	return false
}

// instruct notes what may be removed from now on.
func (l *ledger) instruct(e kube.Event) {
	obj := e.New
	if obj == nil {
		obj = e.Old
	}
	for name, t := range targetsOf(obj) {
		switch {
		case t.State == placementv1alpha1.TargetObserved:
			if obj.GetDeletionTimestamp() != nil {
				l.deletedUp[t.UID] = true
			}
		case obj.GetDeletionTimestamp() != nil || t.State == placementv1alpha1.TargetStateRemoving:
			l.instructed[instruction{obj.GetUID(), name}] = true
		}
	}
}

// mayRemove says that the object with a UID shall not be on a target. One that a
// restored backup does not know may be there, until another one takes its name.
func (l *ledger) mayRemove(uid types.UID, target string) bool {
	_, live := l.world.api.ByUID(uid)
	switch {
	case l.instructed[instruction{uid, target}]:
		return true
	case live != nil && l.turnedBack > 0:
		_, targeted := targetsOf(live)[target]
		return !targeted // the backup does not know that it ever was
	case live == nil && l.lost[uid] && len(l.versions[uid]) > 0:
		v := l.versions[uid][0]
		other := l.world.api.Find(l.world.api.KeyOf(resourceOf(v), v))
		return other != nil && targetsText(other) != ""
	}
	return live == nil
}

// restored prepares for a backup that comes back: decisions are those of then,
// and what was made since is lost.
func (l *ledger) restored(b *kube.Backup) {
	known := map[types.UID]bool{}
	l.turnedBack = l.world.step()
	l.decisions, l.physicalNames = map[types.UID]string{}, map[types.UID]string{}
	for _, obj := range b.Objects {
		known[obj.GetUID()] = true
		delete(l.lost, obj.GetUID())
	}
	for uid := range l.versions {
		if _, live := l.world.api.ByUID(uid); live != nil && !known[uid] {
			l.lost[uid] = true
		}
	}
	for k, obj := range b.Objects {
		switch k.Resource {
		case placements:
			l.decided(kube.Event{New: obj})
		case namespaces:
			l.physicalNames[obj.GetUID()] = obj.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
		}
	}
}

// bringBack notes an object of a backup.
func (l *ledger) bringBack(e kube.Event) {
	if c, ok := e.Old.(*placementv1alpha1.Copy); ok {
		l.unrecorded[c.Spec.Object.UID] = true
	}
	if e.New == nil {
		return
	}
	if u, ok := e.New.(*unstructured.Unstructured); ok {
		l.versions[u.GetUID()] = append(l.versions[u.GetUID()], u)
	}
}

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
	if c.Status.PhysicalUID != "" {
		if l.recorded[uid] == nil {
			l.recorded[uid] = map[types.UID]bool{}
		}
		l.recorded[uid][c.Status.PhysicalUID] = true
	}
	if e.Old != nil && e.Old.(*placementv1alpha1.Copy).Spec.Object.UID != uid {
		l.world.fail(OneOwner, "%s was about %s and is about %s", e.Key, e.Old.(*placementv1alpha1.Copy).Spec.Object.UID, uid)
	}
	if c.Status.State != placementv1alpha1.CopyRemoved {
		return
	}
	for _, obj := range l.copiesOf(l.world.cluster(c.Spec.PhysicalCluster), objectOf(c).Resource, uid) {
		l.world.fail(RemovedIsGone, "%s %s is acknowledged as removed from %s, but %s is there", objectOf(c), uid, c.Spec.PhysicalCluster, obj.GetUID())
	}
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
		if slices.Contains(d.PhysicalClusters, c.Name) && (c.Spec.Unschedulable || c.Spec.Forget || !ready) {
			l.world.fail(DecisionsStand, "%s was chosen, but may receive nothing", c.Name)
		}
	}
	u.Decided = d.PhysicalClusters
	if v := placement.Verify(s, u); d.Possible() && !v.Satisfied {
		l.world.fail(DecisionsStand, "%s", v.Message)
	}
}

// decided checks that a decision stays.
func (l *ledger) decided(e kube.Event) {
	if e.New == nil {
		return
	}
	p := e.New.(*placementv1alpha1.Placement)
	if decided(p) == nil || len(p.OwnerReferences) == 0 {
		return
	}
	uid, now := p.OwnerReferences[0].UID, strings.Join(decided(p), ",")
	if before, ok := l.decisions[uid]; ok && before != now {
		l.world.fail(DecisionsStand, "namespace %s was decided for %s and is decided for %s", uid, before, now)
	}
	l.decisions[uid] = now
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
	decision := strings.Split(l.decisions[namespace.GetUID()], ",")
	for _, name := range targetsOf(e.New).Names() {
		if _, had := before[name]; !had && !slices.Contains(decision, name) {
			l.world.fail(DecisionsStand, "%s got the target %s, but its namespace %s is decided for %v", e.Key, name, namespace.GetUID(), decision)
		}
	}
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
	uid := e.New.GetUID()
	for _, name := range targetsOf(e.New).Names() {
		if targetsOf(e.New)[name].State != placementv1alpha1.TargetSync {
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
		Target: targetsOf(v)[target], RuntimeClass: l.world.cluster(target).classOf(syncer.RuntimeHandler(v)),
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
	if err := syncerguard.Check(w); err != nil && l.turnedBack == 0 { // it may not know yet that a backup was restored
		l.world.fail(Permitted, "%s %s %s/%s: %v", w.Verb, w.Resource, w.Namespace, w.Name, err)
	}
}

func (w *World) cluster(name string) *physical {
	i := slices.IndexFunc(w.clusters, func(p *physical) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return w.clusters[i]
}
