package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
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
	// ReplacedFirst: nothing leaves a target before it is as available elsewhere.
	ReplacedFirst = "the replacement comes first"
	// WithdrawnFirst: what leaves a target is not published there any more.
	WithdrawnFirst = "traffic is withdrawn first"
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
	// decisions by unit, physical names by the UID of the Namespace.
	decisions     map[unitID]string
	leaving       map[unitID][]string  // what a transition leaves
	removing      map[unitID]time.Time // since when it removes
	everDecided   map[everDecided]bool
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
	// available is how many pods Copies said to be available lately.
	available availability
	// refused is when what a syncer asked for was refused lately.
	refused map[attempt][]time.Time
	// cameBack is when an object that was to leave a target was to stay there again.
	cameBack map[instruction]time.Time
	// forced are the UIDs that somebody released behind our back, lost those that a
	// restored backup does not know.
	forced, lost map[types.UID]bool
	// turnedBack is when a backup was restored, unrecorded are the UIDs whose Copies
	// that changed.
	turnedBack int
	unrecorded map[types.UID]bool
	// written is what was written last into the volumes of claims, counted by writes.
	written map[claimName]*writing
	writes  int
	// led is when a Service was last led to by a physical cluster.
	led map[leads]time.Time
	// ledBelow is whether a Service of a physical cluster leads to pods.
	ledBelow map[serviceBelow]stretch
	// runs are those of CronJobs.
	runs cronRuns
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
		world: w, marked: map[types.UID]bool{}, returned: map[types.UID]bool{}, instructed: map[instruction]bool{}, cameBack: map[instruction]time.Time{}, deletedUp: map[types.UID]bool{}, made: map[types.UID]origin{},
		recorded: map[types.UID]map[types.UID]bool{}, available: availability{}, decisions: map[unitID]string{}, leaving: map[unitID][]string{}, removing: map[unitID]time.Time{}, everDecided: map[everDecided]bool{}, physicalNames: map[types.UID]string{},
		versions: map[types.UID][]*unstructured.Unstructured{}, applied: map[types.UID][]digestAt{}, seen: map[sighted]bool{},
		born: map[types.UID]int{}, looked: map[place]int{}, removed: map[string][]kube.Event{}, refused: map[attempt][]time.Time{}, forced: map[types.UID]bool{}, lost: map[types.UID]bool{}, unrecorded: map[types.UID]bool{}, written: map[claimName]*writing{}, led: map[leads]time.Time{}, ledBelow: map[serviceBelow]stretch{}, runs: newRuns(),
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
		l.noteAvailable(e)
		return
	case placements:
		l.decided(e)
		return
	case endpointSlices:
		l.sliceWritten(e)
		return
	}
	if !slices.Contains(copied, e.Key.Resource) {
		return
	}
	if e.New == nil && e.Old.GetDeletionTimestamp() == nil && !isObserved(e.Old) && slices.Contains(e.Old.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
		l.world.fail(FinalizersWait, "%s went without a deletion", e.Key)
	}
	l.acknowledged(e)
	l.claimWritten(e)
	l.instruct(e)
	if e.New == nil {
		return
	}
	l.versions[e.New.GetUID()] = append(l.versions[e.New.GetUID()], cast(e.New))
	l.targeted(e)
	l.permits(e)
	l.comesBack(e)
	if e.Old != nil && e.Key.Resource == deployments {
		l.generationRises(e)
	}
}

// comesBack notes what is to stay where it was to leave.
func (l *ledger) comesBack(e kube.Event) {
	if e.Old == nil {
		return
	}
	before := targetsOf(e.Old)
	for name, t := range targetsOf(e.New) {
		if t.Keeps() && !before[name].Keeps() {
			l.cameBack[instruction{e.New.GetUID(), name}] = l.world.now()
		}
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
	l.decisions, l.leaving, l.physicalNames = map[unitID]string{}, map[unitID][]string{}, map[types.UID]string{}
	l.removing = map[unitID]time.Time{}
	for _, obj := range b.Objects {
		known[obj.GetUID()] = true
		delete(l.lost, obj.GetUID())
	}
	for uid := range l.versions {
		if _, live := l.world.api.ByUID(uid); live != nil && !known[uid] {
			l.lost[uid] = true
		}
	}
	l.recorded = map[types.UID]map[types.UID]bool{} // what a Copy said of later nobody can know any more
	for k, obj := range b.Objects {
		switch k.Resource {
		case copies:
			l.record(obj.(*placementv1alpha1.Copy))
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

func (w *World) cluster(name string) *physical {
	i := slices.IndexFunc(w.clusters, func(p *physical) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return w.clusters[i]
}
