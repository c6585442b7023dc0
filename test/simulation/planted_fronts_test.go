package simulation

import (
	"encoding/json"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var plantedFronts = []plant{
	{"traffic is withdrawn before it goes elsewhere", Bugs{next: drainsAtOnce}, NeverEmpty, 50, []string{"front", "move front"}},
	{"a new address is published at once", Bugs{next: settlesNot}, SettledFirst, 50, []string{"front", "move front"}},
	{"a place without pods is not said to be one", Bugs{alter: forgetsNowhere(services)}, Converges, 50, []string{"front", "move front", "divide", "scale"}},
	{"it is not said that an address is left out", Bugs{summarize: leavesOutInSilence}, Converges, 50, []string{"front", "move front", "divide", "scale"}},
	{"an address is back with the first pod", Bugs{plan: ledForLong}, BackLate, 50, []string{"front", "move front", "divide", "scale"}},
	{"of an Ingress a place without pods is not said to be one", Bugs{alter: forgetsNowhere(ingresses)}, Converges, 50, []string{"enter", "front", "divide", "scale"}},
	{"an autoscaler comes before as many run", Bugs{next: drainsAtOnce}, ScaledFirst, 50, []string{"autoscale", "load", "pin"}},
	{"each place has all of a budget", Bugs{alter: appliesWhole}, PermitsNoMore, 50, []string{"budget", "divide", "scale"}},
	{"endpoints that go stay above", Bugs{alter: keepsEndpoints}, LeadsWhereItRuns, 50, []string{"front", "move front", "edit", "delete"}},
}

// drainsAtOnce waits for nothing where the traffic is to go.
func drainsAtOnce(t *placementv1alpha1.Transition, s transition.State) transition.Step {
	if t.Phase == placementv1alpha1.TransitionStarting && len(t.From) > 0 && s.Stale == 0 {
		return transition.Step{Phase: placementv1alpha1.TransitionDraining}
	}
	return transition.Next(t, s)
}

// settlesNot sends clients to a new address without a while in between.
func settlesNot(t *placementv1alpha1.Transition, s transition.State) transition.Step {
	t = t.DeepCopy()
	t.MinReadySeconds = 0
	return transition.Next(t, s)
}

// ledForLong has what leads to a pod have done so for long.
func ledForLong(in syncer.Input) []syncer.Action {
	in.LedSince = map[string]time.Time{}
	if in.Copy != nil {
		for _, service := range in.Copy.Status.NoEndpoints {
			in.LedSince[service] = in.Now.Add(-time.Hour)
		}
	}
	return syncer.Plan(in)
}

// forgetsNowhere has Copies of a resource never say that a Service leads to no pod.
func forgetsNowhere(of schema.GroupResource) func(*call) {
	return func(c *call) {
		r := c.req
		if c.line.target == "" || r.method != http.MethodPut || r.res.GroupResource() != copies {
			return
		}
		obj, err := r.res.decode(r.body)
		if err != nil {
			return
		}
		if is := obj.(*placementv1alpha1.Copy); objectOf(is).Resource == of {
			is.Status.NoEndpoints = nil
			r.body, _ = json.Marshal(is) // it was decoded
		}
	}
}

// leavesOutInSilence has Services not say which addresses are left out.
func leavesOutInSilence(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy, now time.Time) (map[string]any, bool) {
	status, differs := syncer.Summarize(kind, obj, list, now)
	if kind.Semantics == workload.ServiceSemantics && differs {
		delete(status, "conditions")
		differs = !syncer.SameStatus(status, part(obj, "status"))
	}
	return status, differs
}

// appliesWhole writes a disruption budget below as it is above.
func appliesWhole(c *call) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || types.PatchType(r.content) != types.ApplyPatchType || r.res.GroupResource() != budgets {
		return
	}
	obj, err := r.res.decode(r.body)
	if err != nil {
		return
	}
	m, _ := syncer.MarkOf(budgets, obj)
	if above := cast(c.line.world.api.Find(keyOfMark(budgets, m))); above != nil {
		cast(obj).Object["spec"] = above.Object["spec"]
		r.body, _ = json.Marshal(cast(obj).Object) // it was decoded
	}
}

// keepsEndpoints has what clients are sent to become more, and never fewer.
func keepsEndpoints(c *call) {
	r := c.req
	if c.line.target == "" || r.method != http.MethodPut || r.res.GroupResource() != endpointSlices {
		return
	}
	old := cast(c.line.world.api.Find(r.key()))
	obj, err := r.res.decode(r.body)
	if old == nil || err != nil || len(readyIn(obj)) >= len(readyIn(old)) {
		return
	}
	next := cast(obj)
	next.Object["endpoints"] = old.Object["endpoints"]
	r.body, _ = json.Marshal(next.Object) // it was decoded
}
