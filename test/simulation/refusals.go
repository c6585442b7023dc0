package simulation

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// refusal is how a physical cluster answers its syncer what it would do for anybody else, as somebody there changed a
// policy, a webhook, a role, or what is before the API server. The zero refusal refuses nothing.
type refusal int

const (
	refusesNothing refusal = iota
	// refusesNew: a policy denies what is created.
	refusesNew
	// refusesChanges: a policy denies changes of what is there.
	refusesChanges
	// refusesDeletes: a policy denies deletions.
	refusesDeletes
	// refusesWrites: a webhook that is asked about all of them fails.
	refusesWrites
	// refusesReads: the role has neither get, list nor watch any more.
	refusesReads
	// refusesAll: nor anything else.
	refusesAll
	// hasNoRoute: who is before the API server answers that there is nothing, whatever is asked for.
	hasNoRoute
	refusals
)

// refuse: people of a physical cluster have it refuse something of a resource to its syncer; or take that back.
func (w *World) refuse(h Happening) {
	p, gr := w.cluster(h.Physical), h.Resource
	switch also := w.refusable(); h.N % 5 {
	case 0:
		gr = namespaces
	case 1:
		gr = also[h.N/5%len(also)]
	}
	if p.refusals[gr] != refusesNothing {
		delete(p.refusals, gr)
		return
	}
	p.refusals[gr] = 1 + refusal(h.N)%(refusals-1)
	if p.refusals[gr] < refusesReads {
		return // a watch that began is not asked about again
	}
	for _, t := range slices.Clone(w.streams) { // those that end are taken out
		if t.front == p.front && t.res.GroupResource() == gr {
			t.end(errUnreachable)
			w.wait()
		}
	}
}

// refusable are resources that scripts are not about, and syncers write all the same.
func (w *World) refusable() []schema.GroupResource {
	out := []schema.GroupResource{netPolicies, quotas, nodes}
	if w.volumes {
		out = append(out, claims, persistentVolumes)
	}
	if w.data {
		out = append(out, statefulSets, snapshots, snapshotContents)
	}
	if w.imports || w.fronts {
		out = append(out, endpointSlices)
	}
	if w.manifests {
		out = append(out, storageClasses)
	}
	return out
}

// refuses answers what a physical cluster refuses its syncer.
//
//	refusal         get, list, watch  create  change  delete
//	refusesNew                        403
//	refusesChanges                            422
//	refusesDeletes                                    403
//	refusesWrites                     500     500     500
//	refusesReads    403
//	refusesAll      403               403     403     403
//	hasNoRoute      404               404     404     404
func (f *front) refuses(c *call) (answer, bool) {
	r := c.req
	if f.physical == nil || c.line.syncer == nil {
		return answer{}, false
	}
	reads, deletes := r.method == http.MethodGet, r.method == http.MethodDelete
	creates := !reads && !deletes && f.store.Find(r.key()) == nil
	forbidden := apierrors.NewForbidden(r.res.GroupResource(), r.name, errors.New("a policy of the physical cluster"))
	switch kind := f.physical.refusals[r.res.GroupResource()]; {
	case kind == refusesNew && creates, kind == refusesDeletes && deletes, kind == refusesReads && reads, kind == refusesAll:
		return failure(forbidden), true
	case kind == refusesChanges && !reads && !creates && !deletes:
		return failure(apierrors.NewInvalid(r.res.gvk().GroupKind(), r.name, field.ErrorList{field.Forbidden(field.NewPath("spec"), "a policy")})), true
	case kind == refusesWrites && !reads:
		return failure(apierrors.NewInternalError(errors.New("failed calling webhook"))), true
	case kind == hasNoRoute:
		return page(), true
	}
	return answer{}, false
}

// page is "not found" of nothing in particular, as API servers say it of what they do not serve, and load balancers of
// what they have no route for.
func page() answer {
	a := respond(http.StatusNotFound, []byte("404 page not found\n"), "404 page not found")
	a.response.Header.Set("Content-Type", "text/plain; charset=utf-8")
	return a
}

// loseRoute: for a while, who is before the servers of the control plane has no route for the syncers of a physical
// cluster, and answers in their place. What they watch goes on, or not.
func (w *World) loseRoute(h Happening) {
	p := w.cluster(h.Physical)
	if p.routeless {
		return
	}
	p.leadLines(false, h.N%2 == 0)
	w.after(downtime(h.N), func() { p.leadLines(true, false) })
}

func (p *physical) leadLines(to, ending bool) {
	p.routeless = !to
	for _, s := range p.syncers {
		if s.up.routeless = !to; ending {
			p.world.endStreams(s.up)
		}
	}
}
