package simulation

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
	{"one acknowledgement is enough", Bugs{release: releasesEarly}, FinalizersWait, 50, nil},
	{"the observed generation is what was written", Bugs{summarize: boasts}, TrueGeneration, 20, nil},
	{"the observed generation is that of the fastest target", Bugs{summarize: fastest}, TrueGeneration, 50, nil},
	{"cordoned physical clusters are chosen", Bugs{decide: ignoresCordon}, DecisionsStand, 100, []string{"cordon"}},
	{"the last to decide wins", Bugs{alter: lastWins, answers: seesNoDecision}, DecisionsStand, 200, []string{"cordon", "create"}},
	{"a syncer writes Copies of others", Bugs{plan: trespasses}, Permitted, 5, nil},
	{"running pods are taken off", Bugs{alter: takesOff}, RunningIsUp, 20, nil},
	{"failures are not tried again", Bugs{plan: givesUp()}, Converges, 200, []string{"create", "delete namespace below"}},
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
	{"what is refused is tried again at once", Bugs{plan: insists}, Paced, 100, []string{"create", "delete namespace below"}},
	{"the core changes its input", Bugs{plan: changesInput}, CoresArePure, 5, nil},
}

func TestWorldsFindPlantedBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			var others []string
			for seed := uint64(1); seed <= p.within; seed++ {
				o := Run(t, Options{Seed: seed, Script: Script(seed, p.provoked...), Bugs: p.bugs})
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
		OnlyMeant, EmptiedWaits, OrphansWait, RulesFirst, SameRuntime, Paced,
	} {
		if !slices.ContainsFunc(planted, func(p plant) bool { return p.invariant == invariant }) {
			t.Errorf("no planted bug breaks: %s", invariant)
		}
	}
}

// absenceDeletes is what syncers before this one did.
func absenceDeletes(in syncer.Input) []syncer.Action {
	if in.Logical == nil && in.Physical != nil && in.Copy != nil && in.Physical.GetDeletionTimestamp() == nil {
		return []syncer.Action{{Verb: syncer.Delete, UID: in.Physical.GetUID(), Why: "Absent"}}
	}
	return syncer.Plan(in)
}

// takeOver is what the plan would apply if nothing were there, aimed at what is.
func takeOver(in syncer.Input, otherwise []syncer.Action) []syncer.Action {
	physical := in.Physical
	in.Physical = nil
	for _, a := range syncer.Plan(in) {
		if a.Verb == syncer.Apply {
			a.Object.SetUID(physical.GetUID())
			return []syncer.Action{a}
		}
	}
	return otherwise
}

func adopts(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if in.Physical == nil || in.Logical == nil || in.Applied || len(actions) == 0 ||
		actions[0].Verb != syncer.WriteCopy || actions[0].Copy.Status.Reason != syncer.NotOurs.Reason {
		return actions
	}
	return takeOver(in, actions)
}

func rebrands(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) != 1 || actions[0].Verb != syncer.Delete || actions[0].Why != "OtherIncarnation" || in.Logical == nil {
		return actions
	}
	return takeOver(in, actions)
}

func appliesFirst(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) != 1 || actions[0].Verb != syncer.WriteCopy || actions[0].Copy.Status.State != placementv1alpha1.CopyPending {
		return actions
	}
	if in.Copy == nil && in.Physical == nil {
		in.Copy, in.Unseen = actions[0].Copy, false
		return syncer.Plan(in)
	}
	return actions
}

func acknowledgesEarly(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	for i, a := range actions {
		if a.Verb == syncer.WriteCopy && a.Copy.Status.State == placementv1alpha1.CopyRemoving {
			c := a.Copy.DeepCopy()
			c.Status.State = placementv1alpha1.CopyRemoved
			actions[i].Copy = c
		}
	}
	return actions
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

func boasts(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy) (map[string]any, bool) {
	return withGeneration(kind, obj, list, obj.GetGeneration())
}

func fastest(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy) (map[string]any, bool) {
	observed := int64(0)
	for _, c := range list {
		if c.Spec.Object.UID == obj.GetUID() {
			observed = max(observed, c.Status.ObservedGeneration)
		}
	}
	return withGeneration(kind, obj, list, observed)
}

func withGeneration(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy, n int64) (map[string]any, bool) {
	status, differs := syncer.Summarize(kind, obj, list)
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

func trespasses(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	for i, a := range actions {
		if a.Verb == syncer.WriteCopy && in.Copy == nil {
			actions[i].Copy = a.Copy.DeepCopy()
			actions[i].Copy.Spec.PhysicalCluster = "elsewhere"
		}
	}
	return actions
}

// takesOff deletes a mirror instead of writing its status.
func takesOff(c *call) {
	r := c.req
	if c.line.target != "" && r.method == http.MethodPut && r.subresource == "status" && r.res.GroupResource() == pods {
		r.method, r.subresource, r.body = http.MethodDelete, "", nil
	}
}

func leavesDrift(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 1 && actions[0].Drift {
		return nil
	}
	return actions
}

func appliesOnce(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 1 && actions[0].Why == "Changed" {
		return nil
	}
	return actions
}

func changesInput(in syncer.Input) []syncer.Action {
	if in.Logical != nil {
		in.Logical.SetLabels(map[string]string{"changed": "yes"})
	}
	return syncer.Plan(in)
}

func reuses(in syncer.Input) []syncer.Action {
	if in.Copy != nil && in.Logical != nil && in.Copy.Status.State == placementv1alpha1.CopyRemoved && in.Copy.Spec.Object.UID != in.Logical.GetUID() {
		c := in.Copy.DeepCopy()
		c.Spec.Object.UID = in.Logical.GetUID()
		c.Status = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending}
		return []syncer.Action{{Verb: syncer.WriteCopy, Copy: c}}
	}
	return syncer.Plan(in)
}

// believesAnybody: whoever answers has the identity of the cluster that is meant.
func believesAnybody(c *call) (answer, bool) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || r.method != http.MethodGet || r.res == nil || r.res.GroupResource() != namespaces || r.name != metav1.NamespaceSystem {
		return answer{}, false
	}
	meant := c.line.syncer.physical.front
	return meant.object(r, meant.store.Find(r.key())), true
}

// neverEmpty: whoever asks whether there is a namespace of ours hears that there is.
func neverEmpty(c *call) (answer, bool) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || r.res == nil || r.res.GroupResource() != namespaces || r.query.Get("limit") != "1" || r.query.Get("labelSelector") == "" {
		return answer{}, false
	}
	return ok([]byte(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"ours"}}]}`), "one, it says"), true
}

// removesOrphans deletes what it should report.
func removesOrphans(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 1 && actions[0].Verb == syncer.Report {
		return []syncer.Action{{Verb: syncer.Delete, UID: actions[0].UID, Why: "Orphan"}}
	}
	return actions
}

// restless counts in each Copy how often something was looked at.
func restless() func(syncer.Input) []syncer.Action {
	var mu sync.Mutex
	n := int64(0)
	return func(in syncer.Input) []syncer.Action {
		actions := syncer.Plan(in)
		if len(actions) > 0 || in.Copy == nil || in.Copy.Status.State != placementv1alpha1.CopySynced {
			return actions
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		c := in.Copy.DeepCopy()
		c.Status.Drifts = n
		return []syncer.Action{{Verb: syncer.WriteCopy, Copy: c}}
	}
}

func ignoresControllers(in syncer.Input) []syncer.Action {
	in.Owner = nil
	return syncer.Plan(in)
}

func keepsRecords(obj metav1.Object, list []*placementv1alpha1.Copy, gone func(string) bool) copiescontroller.Verdict {
	v := copiescontroller.Decide(obj, list, gone)
	if obj != nil && isObserved(obj) {
		v.Delete = nil
	}
	return v
}

// trusts: a syncer that asks for an object hears that there is none.
func trusts(c *call) (answer, bool) {
	r := c.req
	if c.line.target == "" || r.method != http.MethodGet || r.name == "" || !slices.Contains(copied, r.res.GroupResource()) {
		return answer{}, false
	}
	return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name)), true
}

// recordsAnything: a syncer may write the record of what the server does not know.
func recordsAnything(c *call) (answer, bool) {
	r := c.req
	if c.line.target == "" || r.method != http.MethodPost || r.res.GroupResource() != copies {
		return answer{}, false
	}
	obj, err := r.res.decode(r.body)
	if err != nil {
		return answer{}, false
	}
	obj.SetNamespace(r.namespace)
	obj.SetAnnotations(map[string]string{"kcp.io/cluster": r.scope.Cluster.String()})
	return c.line.to().result(r)(c.line.world.api.Create(c.line.by, copies, obj)), true
}

// takesOver: an apply may meet what somebody else has made a moment ago.
func takesOver(c *call) {
	r := c.req
	if c.line.syncer == nil || types.PatchType(r.content) != types.ApplyPatchType {
		return
	}
	obj, err := r.res.decode(r.body)
	if err != nil {
		return
	}
	obj.SetResourceVersion("")
	r.body, _ = json.Marshal(obj)
	r.query.Set("force", "true")
}

func deletesByName(c *call) {
	if c.line.syncer != nil && c.line.target == "" && c.req.method == http.MethodDelete {
		c.req.body = nil
	}
}

// seesNoDecision: a server that decides does not see that somebody has.
func seesNoDecision(c *call) (answer, bool) {
	r := c.req
	if c.line.by != system || r.method != http.MethodGet || r.name == "" || r.res.GroupResource() != placements {
		return answer{}, false
	}
	a := c.line.to().get(c)
	body, _ := io.ReadAll(a.response.Body)
	obj, err := r.res.decode(body)
	p, ok := obj.(*placementv1alpha1.Placement)
	if err != nil || !ok || p.UID == "" {
		return failure(apierrors.NewNotFound(placements, r.name)), true
	}
	p.Spec.Decision = nil
	body, _ = json.Marshal(p)
	return respond(http.StatusOK, body, "without its decision"), true
}

// lastWins: the decision is stored whatever is there.
func lastWins(c *call) {
	r := c.req
	if c.line.by != system || r.res.GroupResource() != placements || r.method != http.MethodPut || r.subresource != "" {
		return
	}
	if obj, err := r.res.decode(r.body); err == nil {
		obj.SetResourceVersion("")
		r.body, _ = json.Marshal(obj)
	}
}

// forgetsWrites: the watch cache of a server says that it is as new as the last write
// of the server itself, and has the status from before. (One that only is behind, and
// is not asked for a version, does no lasting harm: the controller does not recognize
// its write when that comes, and looks again.)
func forgetsWrites(c *call) (answer, bool) {
	r := c.req
	if c.line.by != system || r.method != http.MethodGet || r.name == "" || r.res.GroupResource() != deployments || r.query.Get("resourceVersion") == "" {
		return answer{}, false
	}
	f := c.line.to()
	now := cast(f.store.Find(r.key()))
	log := f.store.Log(deployments)
	for i := len(log) - 1; i >= 0 && now != nil; i-- {
		e := log[i]
		if e.Key != r.key() || e.Old == nil || e.By != system || number(e.Old, "status", "readyReplicas") == number(now, "status", "readyReplicas") {
			continue
		}
		old := changed(now)
		old.Object["status"] = cast(e.Old).Object["status"]
		body, _ := json.Marshal(old.Object)
		return ok(body, "with the status of "+e.Old.GetResourceVersion()), true
	}
	return answer{}, false
}

// givesUp does nothing about an object of which it has once seen a failure.
func givesUp() func(syncer.Input) []syncer.Action {
	return func(in syncer.Input) []syncer.Action {
		if in.Copy != nil && in.Copy.Status.State == placementv1alpha1.CopyFailed && in.Failure == nil && in.Logical != nil &&
			in.Logical.GetUID() == in.Copy.Spec.Object.UID && in.Logical.GetDeletionTimestamp() == nil {
			return nil
		}
		return syncer.Plan(in)
	}
}

// grantsLeases says yes to whoever wants a Lease, and keeps what it has.
func grantsLeases(c *call) (answer, bool) {
	r := c.req
	if c.line.target == "" || r.res == nil || r.res.GroupResource() != leases {
		return answer{}, false
	}
	stored := c.line.world.api.Find(r.key())
	if stored == nil || text(stored, "spec", "holderIdentity") == c.line.syncer.name {
		return answer{}, false
	}
	switch r.method {
	case http.MethodGet:
		free := changed(stored)
		_ = unstructured.SetNestedField(free.Object, "", "spec", "holderIdentity") // a path of maps
		body, _ := json.Marshal(free.Object)
		return ok(body, "free"), true
	case http.MethodPut:
		return ok(r.body, "granted"), true
	}
	return answer{}, false
}

// updatesByName: an apply to an object that is there names no UID and no version: one
// that is late would make it again.
func updatesByName(c *call) {
	r := c.req
	if c.line.syncer == nil || types.PatchType(r.content) != types.ApplyPatchType {
		return
	}
	obj, err := r.res.decode(r.body)
	if err != nil || obj.GetUID() == "" {
		return
	}
	obj.SetUID("")
	obj.SetResourceVersion("")
	r.body, _ = json.Marshal(obj)
}

// ignoresRules applies what makes pods before what rules them.
func ignoresRules(in syncer.Input) []syncer.Action {
	in.Ruled = true
	return syncer.Plan(in)
}

// forgetsRuntime sends pods down without their runtime, keepsClass with the name of the
// class in the logical cluster.
func forgetsRuntime(in syncer.Input) []syncer.Action { return withClass(in, "") }

func keepsClass(in syncer.Input) []syncer.Action { return withClass(in, sandboxed) }

func withClass(in syncer.Input, class string) []syncer.Action {
	actions := syncer.Plan(in)
	for _, a := range actions {
		if a.Verb == syncer.Apply && in.Ref.Kind.PodTemplate != nil && syncer.RuntimeHandler(in.Logical) != "" {
			path := append(slices.Clone(in.Ref.Kind.PodTemplate), "spec", "runtimeClassName")
			unstructured.RemoveNestedField(a.Object.Object, path...)
			if class != "" {
				_ = unstructured.SetNestedField(a.Object.Object, class, path...) // a path of maps
			}
		}
	}
	return actions
}

// insists takes no refusal for an answer.
func insists(in syncer.Input) []syncer.Action {
	in.Failure = nil
	return syncer.Plan(in)
}
