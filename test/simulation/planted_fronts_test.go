package simulation

import (
	"encoding/json"
	"net/http"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
)

var plantedFronts = []plant{
	{"traffic is withdrawn before it goes elsewhere", Bugs{next: drainsAtOnce}, NeverEmpty, 50, []string{"front", "move front"}},
	{"a new address is published at once", Bugs{next: settlesNot}, SettledFirst, 50, []string{"front", "move front"}},
	{"a place without pods is not said to be one", Bugs{alter: forgetsNowhere}, Converges, 50, []string{"front", "move front", "divide", "scale"}},
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

// forgetsNowhere has Copies never say that a Service leads to no pod.
func forgetsNowhere(c *call) {
	r := c.req
	if c.line.target == "" || r.method != http.MethodPut || r.res.GroupResource() != copies {
		return
	}
	if obj, err := r.res.decode(r.body); err == nil {
		obj.(*placementv1alpha1.Copy).Status.NoEndpoints = nil
		r.body, _ = json.Marshal(obj) // it was decoded
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
