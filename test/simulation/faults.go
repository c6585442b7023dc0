package simulation

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/simulation/kube"
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
	if p.session == nil {
		return
	}
	p.stopSyncer()
	w.after(downtime(h.N), p.startSyncer)
}

// crashServer kills the server between two writes.
func (w *World) crashServer(h Happening) {
	if w.control == nil {
		return
	}
	w.stopServer()
	for _, p := range w.clusters {
		p.loseUp()
	}
	w.after(downtime(h.N), func() {
		if w.control == nil {
			w.startServer()
		}
	})
}

func (p *physical) loseUp() {
	if p.session != nil {
		for _, gr := range copied {
			p.session.logical[gr].Lose()
		}
		p.session.copies.Lose()
	}
}

func (p *physical) loseDown() {
	if p.session != nil {
		for _, gr := range copied {
			p.session.beneath[gr].Lose()
		}
	}
}

// cutUp parts a syncer from the control plane, cutDown from its physical cluster.
func (w *World) cutUp(h Happening) {
	p := w.cluster(h.Physical)
	if p.upCut {
		return
	}
	p.upCut = true
	p.loseUp()
	p.silence()
	w.after(downtime(h.N), func() { p.upCut = false; p.silence() })
}

func (w *World) cutDown(h Happening) {
	p := w.cluster(h.Physical)
	if p.downCut {
		return
	}
	p.downCut = true
	p.loseDown()
	w.after(downtime(h.N), func() { p.downCut = false })
}

// breakWatch breaks one watch of a syncer: what happens until it lists again is
// not told one by one.
func (w *World) breakWatch(h Happening) {
	if s := w.cluster(h.Physical).session; s != nil {
		all := s.informers
		all[h.N%len(all)].Lose()
	}
}

// shortList makes a list come back empty, or without some objects, as if it were
// all there is. It is repaired when the watch breaks the next time.
func (w *World) shortList(h Happening) {
	s := w.cluster(h.Physical).session
	if s == nil {
		return
	}
	all := s.informers
	i := all[h.N%len(all)]
	if !s.reaches(i) {
		return
	}
	n := 0
	i.List(func(kube.Object) bool {
		n++
		return h.N%3 != 0 && n%2 == 0
	})
	w.say("%s: list of %s came back short: %v", s.name, i.Resource().Resource, names(i.All()))
	w.after(downtime(h.N), func() { i.Lose() })
}

func (w *World) cordon(h Happening) {
	w.cluster(h.Physical).edit("admin", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Unschedulable = !pc.Spec.Unschedulable })
}

func (w *World) registerLate(Happening) {
	p := w.cluster("north")
	p.register()
	p.startSyncer()
}

// forget: an admin gives "north" up. Mostly it has burnt down, for good; else its
// syncer works on until it hears of that.
func (w *World) forget(h Happening) {
	p := w.cluster("north")
	if !p.registered || p.dead {
		return
	}
	p.edit("admin", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Forget = true })
	gone := func() {
		p.dead = true
		p.stopSyncer()
		p.work.stop()
	}
	if h.N%3 == 0 {
		w.after(downtime(h.N), gone)
		return
	}
	gone()
}

// mayWrite: what the syncer of a physical cluster that was given up says is not
// heard.
func (p *physical) mayWrite() error {
	pc, ok := p.world.control.informers[physicalClusters].Get(p.key()).(*fleetv1alpha1.PhysicalCluster)
	if ok && pc.Spec.Forget {
		return apierrors.NewForbidden(copies, p.name, errors.New("the physical cluster was given up"))
	}
	return nil
}

// force: an admin loses patience with an object that is being deleted, and takes
// our finalizer off behind the server's back.
func (w *World) force(h Happening) {
	for _, gr := range copied {
		for _, obj := range w.api.List(gr) {
			key := w.api.KeyOf(gr, obj)
			if key.Cluster == h.Cluster && obj.GetDeletionTimestamp() != nil {
				w.say("force %s %s", key, obj.GetUID())
				w.api.RemoveFinalizer(impatient, key, placementv1alpha1.CopiesFinalizer)
				return
			}
		}
	}
}

// impatient admins and restored backups are not bound by the rules.
const (
	impatient = "impatient admin"
	backup    = "backup"
)

func (w *World) backUp(Happening) { w.backup = w.api.Backup() }

// restore brings the control plane back to an earlier state: what was made since
// is unknown to it, what was deleted since is there again.
func (w *World) restore(h Happening) {
	if w.backup == nil {
		return
	}
	w.crashServer(h)
	w.ledger.restored(w.backup)
	w.api.Restore(backup, w.backup)
	for _, p := range w.clusters {
		switch {
		case !p.registered:
		case w.api.Find(p.key()) == nil:
			p.registered = false
			p.register()
			fallthrough
		case p.dead:
			p.edit("admin", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Forget = p.dead })
		}
	}
}

// repair ends all trouble.
func (w *World) repair() {
	w.troubled = false
	if w.control == nil {
		w.startServer()
	}
	for _, p := range w.clusters {
		p.upCut, p.downCut = false, false
		if p.dead {
			continue
		}
		p.edit("admin", func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Unschedulable = false })
		p.silence()
		p.startSyncer()
		p.loseUp()
		p.loseDown()
		p.freeForeign()
	}
}
