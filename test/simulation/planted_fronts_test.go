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
