package simulation

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

var plantedRefusals = []plant{
	{"whatever is not found is gone", Bugs{answers: trustsPages}, RemovedIsGone, 20, nil},
	{"what a load balancer does not find above is gone", Bugs{pages: trustsLoadBalancers}, Converges, 40, nil},
	{"what may not be seen is gone", Bugs{plan: trustsRefusals}, RemovedIsGone, 20, nil},
}

// trustsPages takes "not found" of nothing in particular for an answer about the object that was asked for.
func trustsPages(c *call) (answer, bool) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || r.method != http.MethodGet || r.res == nil || r.name == "" {
		return answer{}, false
	}
	f := c.line.to()
	if f.physical == nil || f.physical.refusals[r.res.GroupResource()] != hasNoRoute {
		return answer{}, false
	}
	return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name)), true
}

// trustsLoadBalancers takes a page for the server's answer about the mirror that is written to.
func trustsLoadBalancers(c *call) answer {
	r := c.req
	if r.reads() || r.res == nil || r.name == "" || !slices.Contains(observed, r.res.GroupResource()) {
		return page()
	}
	return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name))
}

// trustsRefusals takes it for proven that nothing is there, once the physical cluster has answered anything at all.
func trustsRefusals(in syncer.Input) []syncer.Action {
	if !in.Unseen && in.Unproven {
		in.Unproven, in.Failure = false, nil
	}
	return syncer.Plan(in)
}

// refusedWhenItLeaves has an object deleted while a physical cluster does not say whether its copy is there, and the
// watch of these may lack it since a list that came back short.
func refusedWhenItLeaves(seed int, how refusal) []Happening {
	deployment := func(verb string, step int, h Happening) Happening {
		h.Resource, h.Name, h.Physical = deployments, "a", "east"
		return on(verb, step, "one", "web", h)
	}
	script := []Happening{
		deployment("pin", 10, Happening{N: 1}), deployment("wait", 20, Happening{N: 40}),
		deployment("create", 30, Happening{}), deployment("wait", 30, Happening{N: 40}),
	}
	for i := range 24 { // about as many as there are streams
		script = append(script, deployment("short list", 40+i, Happening{N: 3 * (i + seed)}), deployment("wait", 40+i, Happening{N: 5}))
	}
	n := 2
	for 1+refusal(n)%(refusals-1) != how || n%5 < 2 { // of Deployments
		n++
	}
	return append(script, deployment("refuse below", 70, Happening{N: n}), deployment("delete", 71, Happening{}), deployment("wait", 72, Happening{N: 20}))
}

// routeLostWhilePodsStart has pods start while a load balancer answers the syncer, which goes on to see what the server says.
func routeLostWhilePodsStart(seed int) []Happening {
	deployment := func(verb string, step int, h Happening) Happening {
		h.Resource, h.Name, h.Physical = deployments, "a", "east"
		return on(verb, step, "one", "web", h)
	}
	script := []Happening{
		deployment("pin", 10, Happening{N: 1}), deployment("wait", 20, Happening{N: 40}), deployment("create", 30, Happening{}),
	}
	for i := range 6 {
		script = append(script,
			deployment("scale", 40+i, Happening{N: 14}), deployment("wait", 40+i, Happening{N: 40}),
			deployment("scale", 40+i, Happening{N: 6}), deployment("wait", 40+i, Happening{N: 5 + (seed+3*i)%25}),
			deployment("lose route", 40+i, Happening{N: 99}), deployment("wait", 40+i, Happening{N: 40}),
		)
	}
	return script
}
