package simulation

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	copiescontroller "github.com/atoll-dev/atoll/pkg/controllers/copies"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// plant is a bug that the worlds must find: it breaks an invariant within some
// seeds of worlds in which what provokes it happens often.
type plant struct {
	name      string
	bugs      Bugs
	invariant string
	within    uint64
	provoked  []string
}

// scripts are of bugs that few worlds show: what happens to them, by the name of the bug.
var scripts = map[string]func(seed int) []Happening{
	"copies are where the namespace points now":       namespaceBroughtBack,
	"the mark of another incarnation is written over": broughtBackBelow,
	"a volume is handed over while it is used":        movedWithVolume,
	"what others have is carried":                     carriedToOthers,

	"a claim that is deleted goes first where its volume was made": claimedAndGivenUp,
	"what was kept is removed by whatever class":                   claimedAndGivenUp,
	"what was kept stays so":                                       claimedAndGivenUp,
	"a volume is kept before that is recorded":                     beganInVain,

	"half of a copy is used":                                 movedWithData,
	"a StatefulSet begins before its claims come":            movedWithData,
	"what data are copied from goes before the copy is made": movedWithData,
	"pods that brought data are forgotten":                   movedWithData,
	"a claim that is deleted is not made again":              claimLostInMove,

	"a CronJob begins anew where it goes":              movedAcrossRuns,
	"the last run is begun again where a CronJob goes": movedAcrossRuns,
	"a CronJob goes while a job runs":                  movedAcrossRuns,

	"whatever is not found is gone":                    func(seed int) []Happening { return refusedWhenItLeaves(seed, hasNoRoute) },
	"what a load balancer does not find above is gone": routeLostWhilePodsStart,

	"what may not be seen is gone": func(seed int) []Happening { return refusedWhenItLeaves(seed, refusesReads) },
}

// script is what happens in the world of a seed.
func (p plant) script(seed uint64) []Happening {
	if s := scripts[p.name]; s != nil {
		return s(int(seed))
	}
	return Script(seed, p.provoked...)
}

var planted = []plant{
	{"a missing object is deleted without a question", Bugs{plan: absenceDeletes}, AbsenceIsNoDelete, 50, []string{"short list"}},
	{"a missing object is taken for gone", Bugs{answers: trusts}, AbsenceIsNoDelete, 50, []string{"short list"}},
	{"the server vouches for what it does not know", Bugs{answers: recordsAnything}, AbsenceIsNoDelete, 200, []string{"back up", "restore"}},
	{"what is not ours is adopted", Bugs{plan: adopts}, OnlyOurs, 100, []string{"squat", "squat namespace"}},
	{"what appeared a moment ago is taken over", Bugs{alter: takesOver}, OnlyOurs, 200, []string{"squat", "squat namespace"}},
	{"copies are deleted by name", Bugs{alter: deletesByName}, OnlyOurs, 20, nil},
	{"the mark of another incarnation is written over", Bugs{plan: rebrands}, OneOwner, 100, []string{"resurrect below", "replace", "create"}},
	{"a Copy is about another object than before", Bugs{plan: reuses}, OneOwner, 50, []string{"replace"}},
	{"copies are made before they are recorded", Bugs{plan: appliesFirst}, RecordFirst, 20, nil},
	{"removals are acknowledged before they happen", Bugs{plan: acknowledgesEarly}, RemovedIsGone, 20, nil},
	{"copies are where the namespace points now", Bugs{place: followsNamespace}, OneOwner, 60, nil},
	{"one acknowledgement is enough", Bugs{release: releasesEarly}, FinalizersWait, 50, nil},
	{"the observed generation is what was written", Bugs{summarize: boasts}, TrueGeneration, 20, nil},
	{"the observed generation is that of the fastest target", Bugs{summarize: fastest}, TrueGeneration, 50, nil},
	{"cordoned physical clusters are chosen", Bugs{decide: ignoresCordon}, DecisionsStand, 100, []string{"cordon"}},
	{"the last to decide wins", Bugs{alter: lastWins, answers: seesNoDecision}, DecisionsStand, 200, []string{"cordon", "create"}},
	{"a syncer writes Copies of others", Bugs{plan: trespasses}, Permitted, 5, nil},
	{"running pods are taken off", Bugs{alter: takesOff}, RunningIsUp, 20, nil},
	{"failures are not tried again", Bugs{plan: givesUp()}, Converges, 200, []string{"create", "delete namespace below", "pin"}},
	{"drift is left", Bugs{plan: leavesDrift}, Converges, 100, []string{"edit below"}},
	{"what controllers below adopt is put back", Bugs{plan: ignoresControllers}, Converges, 100, []string{"create"}},
	{"the Copy of what was adopted is left", Bugs{release: keepsRecords}, Converges, 100, []string{"create"}},
	{"a Lease is given to everybody who asks", Bugs{answers: grantsLeases}, OneSyncer, 50, []string{"second syncer", "create"}},
	{"a server that decides does not see what another one decided", Bugs{alter: lastWins, answers: seesNoDecision}, DecisionsStand, 200, []string{"second server", "create", "cordon"}},
	{"the server forgets what it wrote", Bugs{answers: forgetsWrites}, Converges, 200, []string{"flap below"}},
	{"changed objects are not applied", Bugs{plan: appliesOnce}, Converges, 50, nil},
	{"an update below names no UID", Bugs{alter: updatesByName}, OnlyOurs, 20, []string{"edit"}},
	{"every look is a write", Bugs{plan: restless()}, ComesToRest, 5, nil},
	{"a syncer believes whoever answers", Bugs{answers: believesAnybody}, OnlyMeant, 50, []string{"swap credentials", "create"}},
	{"an emptied cluster is filled again without a question", Bugs{answers: neverEmpty}, EmptiedWaits, 100, []string{"rewind below", "create"}},
	{"what nothing above knows of is removed", Bugs{plan: removesOrphans}, OrphansWait, 100, []string{"resurrect below", "delete", "create"}},
	{"what is ruled does not wait for quotas", Bugs{plan: ignoresRules}, RulesFirst, 100, []string{"limit", "create"}},
	{"pods run without the runtime that they name", Bugs{plan: forgetsRuntime}, SameRuntime, 50, []string{"sandbox"}},
	{"pods run with a class of the name below", Bugs{plan: keepsClass}, SameRuntime, 50, []string{"sandbox"}},
	{"what is left is removed at once", Bugs{next: removesFirst}, ReplacedFirst, 100, []string{"pin", "create"}},
	{"what is withdrawn is removed at once", Bugs{next: drainsNot}, WithdrawnFirst, 100, []string{"pin", "create"}},
	{"the server decides in the place of another scheduler", Bugs{decide: ignoresScheduler}, TheirChoice, 100, []string{"delegate", "bind", "create"}},
	{"replicas are given up before others are available", Bugs{giveUp: releasesAtOnce}, NoneMissing, 100, []string{"divide", "scale", "create"}},
	{"replicas are never given up", Bugs{giveUp: keepsAll}, SharesFit, 100, []string{"divide", "scale", "create"}},
	{"what is refused is tried again at once", Bugs{plan: insists}, Paced, 100, []string{"create", "delete namespace below", "short list", "break watch"}},
	{"who is elsewhere is not written again", Bugs{answers: leavesAddresses}, Converges, 100, []string{"join", "part", "create"}},
	{"endpoints that users write anew are not written again", Bugs{answers: leavesEndpoints}, Converges, 100, []string{"lead", "create"}},
	{"the core changes its input", Bugs{plan: changesInput}, CoresArePure, 5, nil},
}

func allPlanted() []plant {
	return slices.Concat(planted, plantedVolumes, plantedCarried, plantedData, plantedFronts, plantedRefusals, plantedCrons)
}

func TestWorldsFindPlantedBugs(t *testing.T) {
	for _, p := range allPlanted() {
		t.Run(p.name, func(t *testing.T) {
			var others []string
			for seed := uint64(1); seed <= p.within; seed++ {
				o := Run(t, Options{Seed: seed, Script: p.script(seed), Bugs: p.bugs})
				switch {
				case o.Broken == nil:
				case o.Broken.Invariant == p.invariant:
					t.Logf("seed %d: %s: %s", seed, o.Broken.Invariant, o.Broken.Detail)
					return
				default:
					others = append(others, o.Broken.Invariant)
				}
			}
			t.Errorf("%d worlds do not show that %s; they show %q", p.within, p.invariant, others)
		})
	}
}

func TestEveryInvariantHasABugThatBreaksIt(t *testing.T) {
	for _, invariant := range []string{
		AbsenceIsNoDelete, OnlyOurs, OneOwner, RecordFirst, RemovedIsGone, FinalizersWait, TrueGeneration,
		DecisionsStand, Permitted, OneSyncer, RunningIsUp, ComesToRest, Converges, CoresArePure,
		OnlyMeant, EmptiedWaits, OrphansWait, RulesFirst, SameRuntime, Paced, NoneMissing, SharesFit, TheirChoice,
		DataStay, KeptWhileShared, OneVolume, OneMount, AsTheyWere, CarriedStays, CarriedIsGone, OthersStay,
		DataFollow, OneWriter, LastOneStays, NothingBeside, ClaimComesBack, NeverEmpty, LeadsWhereItRuns,
	} {
		if !slices.ContainsFunc(allPlanted(), func(p plant) bool { return p.invariant == invariant }) {
			t.Errorf("no planted bug breaks: %s", invariant)
		}
	}
}

func releasesEarly(obj metav1.Object, list []*placementv1alpha1.Copy, gone func(string) bool) copiescontroller.Verdict {
	v := copiescontroller.Decide(obj, list, gone)
	if obj != nil && obj.GetDeletionTimestamp() != nil && !isObserved(obj) {
		for _, c := range list {
			v.Finalizer = v.Finalizer || c.Spec.Object.UID == obj.GetUID() && c.Status.State == placementv1alpha1.CopyRemoved
		}
	}
	return v
}

func boasts(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy, now time.Time) (map[string]any, bool) {
	return withGeneration(kind, obj, list, obj.GetGeneration(), now)
}

func fastest(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy, now time.Time) (map[string]any, bool) {
	observed := int64(0)
	for _, c := range list {
		if c.Spec.Object.UID == obj.GetUID() {
			observed = max(observed, c.Status.ObservedGeneration)
		}
	}
	return withGeneration(kind, obj, list, observed, now)
}

func withGeneration(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy, n int64, now time.Time) (map[string]any, bool) {
	status, differs := syncer.Summarize(kind, obj, list, now)
	if kind.Kind != "Deployment" || n <= number(obj, "status", "observedGeneration") || isObserved(obj) {
		return status, differs
	}
	status["observedGeneration"] = n
	return status, true
}

func ignoresCordon(s placement.Snapshot, u placement.Unit) placement.Decision {
	s.PhysicalClusters = slices.Clone(s.PhysicalClusters)
	for i, c := range s.PhysicalClusters {
		pc := c.DeepCopy()
		pc.Spec.Unschedulable = false
		s.PhysicalClusters[i].PhysicalCluster = pc
	}
	return placement.Decide(s, u)
}

// ignoresScheduler decides, whoever is to.
func ignoresScheduler(s placement.Snapshot, u placement.Unit) placement.Decision {
	s.Policies = slices.Clone(s.Policies)
	for i, p := range s.Policies {
		if p.Rules != nil && p.Rules.SchedulerName != "" {
			rules := p.Rules.DeepCopy()
			rules.SchedulerName = ""
			s.Policies[i].Rules = rules
		}
	}
	return placement.Decide(s, u)
}

func keepsRecords(obj metav1.Object, list []*placementv1alpha1.Copy, gone func(string) bool) copiescontroller.Verdict {
	v := copiescontroller.Decide(obj, list, gone)
	if obj != nil && isObserved(obj) {
		v.Delete = nil
	}
	return v
}
