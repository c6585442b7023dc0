package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// downtime is how long something stays away: mostly moments, at times minutes.
func downtime(n int) time.Duration {
	if n%7 == 0 {
		return time.Duration(n) * 5 * time.Second
	}
	return time.Duration(n) * 10 * time.Millisecond
}

// crashSyncer kills a syncer between two requests; another one is started.
func (w *World) crashSyncer(h Happening) {
	p := w.cluster(h.Physical)
	if len(p.syncers) == 0 {
		return
	}
	p.syncers[h.N%len(p.syncers)].crash()
	w.after(downtime(h.N), p.startSyncerIfNone)
}

// stopSyncer ends a syncer in the proper way.
func (w *World) stopSyncer(h Happening) {
	p := w.cluster(h.Physical)
	if len(p.syncers) == 0 {
		return
	}
	s := p.syncers[h.N%len(p.syncers)]
	s.stop()
	w.after(5*time.Second, func() {
		s.crash()
		p.startSyncerIfNone()
	})
}

// secondSyncer starts one beside the one that there is.
func (w *World) secondSyncer(h Happening) {
	if p := w.cluster(h.Physical); len(p.syncers) == 1 {
		p.startSyncer()
	}
}

func (p *physical) startSyncerIfNone() {
	if len(p.syncers) == 0 {
		p.startSyncer()
	}
}

// crashServer kills a server between two requests to the database.
func (w *World) crashServer(h Happening) {
	if len(w.servers) == 0 {
		return
	}
	w.stopServer(w.servers[h.N%len(w.servers)])
	w.after(downtime(h.N), func() {
		if len(w.servers) == 0 {
			w.startAnotherServer()
		}
	})
}

// secondServer starts one beside the one that there is, over the same database.
func (w *World) secondServer(Happening) {
	if len(w.servers) == 1 {
		w.startAnotherServer()
	}
}

// cutUp parts the syncers of a physical cluster from the control plane, cutDown
// from their physical cluster.
func (w *World) cutUp(h Happening) { w.cutUpFor(w.cluster(h.Physical), downtime(h.N)) }

// lose parts them for minutes, in which others take a physical cluster for lost. What runs
// there runs on.
func (w *World) lose(h Happening) {
	w.cutUpFor(w.cluster(h.Physical), time.Duration(60+2*h.N)*time.Second)
}

func (w *World) cutUpFor(p *physical, d time.Duration) {
	if p.upCut {
		return
	}
	p.cutLines(&p.upCut, true, func(s *syncerProcess) *line { return s.up })
	w.after(d, func() { p.cutLines(&p.upCut, false, func(s *syncerProcess) *line { return s.up }) })
}

func (w *World) cutDown(h Happening) {
	p := w.cluster(h.Physical)
	if p.downCut {
		return
	}
	p.cutLines(&p.downCut, true, func(s *syncerProcess) *line { return s.down })
	w.after(downtime(h.N), func() { p.cutLines(&p.downCut, false, func(s *syncerProcess) *line { return s.down }) })
}

func (p *physical) cutLines(cut *bool, to bool, which func(*syncerProcess) *line) {
	*cut = to
	for _, s := range p.syncers {
		p.world.cutLine(which(s), to)
	}
}

// loseLease lets the renewals of a syncer get lost for a while: it has to stop.
func (w *World) loseLease(h Happening) {
	p := w.cluster(h.Physical)
	for _, s := range p.syncers {
		s.up.leaseless = true
		w.after(time.Duration(5+h.N%30)*time.Second, func() { s.up.leaseless = false })
	}
}

// streamsOf are the watches of the syncers of a physical cluster.
func (p *physical) streamsOf() (all []*stream) {
	for _, t := range p.world.streams {
		if t.line.syncer != nil && t.line.syncer.physical == p && !t.over() {
			all = append(all, t)
		}
	}
	return all
}

// breakWatch breaks one watch of a syncer: what happens until it lists again is
// not seen one by one.
func (w *World) breakWatch(h Happening) {
	if all := w.cluster(h.Physical).streamsOf(); len(all) > 0 {
		all[h.N%len(all)].end(errUnreachable)
	}
}

// shortList breaks a watch, and the list that follows comes back empty, or without
// some objects, as if it were all there is. It is repaired when the watch breaks
// the next time.
func (w *World) shortList(h Happening) {
	p := w.cluster(h.Physical)
	var all []*stream
	for _, t := range p.streamsOf() {
		for _, gr := range w.listed() {
			if t.res.GroupResource() == gr {
				all = append(all, t)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	t := all[h.N%len(all)]
	t.front.heard[t.res.GroupResource()] = len(t.front.store.Log(t.res.GroupResource()))
	t.line.short, t.line.shortKeeps, t.line.shortFor = t.res.Resource, h.N%3 != 0, t.req.metadata
	// A watch that is cut by 410 is listed anew.
	t.push([]byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}}`))
	line, resource := t.line, t.res.Resource
	w.after(downtime(h.N)+time.Second, func() {
		if line.short == resource {
			line.short = ""
		}
		w.relist(line, resource)
	})
}

// listed are the resources of which lists come back short.
func (w *World) listed() []schema.GroupResource {
	return slices.DeleteFunc(append(slices.Clone(copied), copies), func(gr schema.GroupResource) bool {
		has, optional := w.optional(gr)
		return optional && !has || gr == manifests && !w.manifests
	})
}

// relist has what is watched over a line listed anew.
func (w *World) relist(l *line, resource string) {
	for _, t := range w.streams {
		if t.line == l && t.res.Resource == resource && !t.over() {
			t.push([]byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}}`))
			w.wait()
		}
	}
}

// isShort says that a list leaves an object out, the n-th.
func (w *World) isShort(c *call, n int) bool {
	l := c.line
	if l.short != c.req.res.Resource || c.req.metadata != l.shortFor || c.req.name != "" || c.req.query.Get("resourceVersion") == "" {
		return false
	}
	return !l.shortKeeps || n%2 != 0
}

// repair ends all trouble.
func (w *World) repair() {
	w.troubled = false
	if len(w.servers) == 0 {
		w.startAnotherServer()
	}
	for _, p := range w.clusters {
		up := func(s *syncerProcess) *line { return s.up }
		down := func(s *syncerProcess) *line { return s.down }
		p.cutLines(&p.upCut, false, up)
		p.cutLines(&p.downCut, false, down)
		p.leadLines(true, false)
		if p.forgotten() && !p.dead {
			p.burnDown() // what was given up does not come back in these worlds
		}
		if p.dead {
			continue
		}
		p.connect(p.front)
		p.edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Unschedulable = false })
		p.startSyncerIfNone()
		for _, s := range p.syncers {
			for _, l := range []*line{s.up, s.down} {
				l.leaseless, l.short = false, ""
				for _, gr := range w.listed() {
					w.relist(l, gr.Resource)
				}
			}
		}
		p.freeForeign()
		clear(p.refusals)
		if p.undefined {
			p.define()
		}
	}
	w.orderAtLast()
	w.administer()
}
