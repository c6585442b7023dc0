package simulation

import (
	"slices"
	"time"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// backup is who writes when a backup is restored, which is not bound by the rules.
const backup = "backup"

func (w *World) backUp(Happening) { w.backup = w.api.Backup() }

// restore brings the control plane back to an earlier state: what was made since
// is unknown to it, what was deleted since is there again. Its revisions go on, or
// go back, too.
func (w *World) restore(h Happening) {
	if w.backup == nil {
		return
	}
	for len(w.servers) > 0 {
		w.crashServer(h)
	}
	w.restores++
	w.waiting = slices.DeleteFunc(w.waiting, func(c *call) bool { // they were on their way to a database that stopped
		if c.commit != nil {
			c.deliver(answer{err: errUnreachable})
		}
		return c.commit != nil
	})
	w.ledger.restored(w.backup)
	if h.N%2 == 0 {
		w.api.Rewind(backup, w.backup)
	} else {
		w.api.Restore(backup, w.backup)
	}
	for _, p := range w.clusters {
		switch {
		case !p.registered:
		case w.api.Find(p.key()) == nil:
			p.registered = false
			p.register()
			fallthrough
		case p.dead:
			p.edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Forget = p.dead })
		}
	}
}

func (w *World) backUpBelow(h Happening) {
	p := w.cluster(h.Physical)
	p.backup = p.api.Backup()
}

// rewindBelow restores a physical cluster from a backup, at times from one that is so
// old that there is nothing of ours. Its revisions go back; nothing is told to watches,
// which break and go on from revisions that it does not have yet.
func (w *World) rewindBelow(h Happening) {
	p := w.cluster(h.Physical)
	b := p.backup
	emptied := h.N%4 == 0
	if emptied {
		b = p.blank
	}
	if b == nil || p.dead {
		return
	}
	if emptied { // its host was lost, too: who meets the cluster asks first
		for len(p.syncers) > 0 {
			p.syncers[0].crash()
		}
		w.after(downtime(h.N), p.startSyncerIfNone)
	}
	w.ledger.rewound(p, b)
	p.emptied = emptied && p.populated()
	p.rewound = true
	p.api.Rewind(backup, b)
	p.front.rewound()
	onTheirWay := func(c *call) bool { // to a server that stopped
		lost := c.line.syncer != nil && c.line.target == "" && c.line.to() == p.front
		if lost {
			c.deliver(answer{err: errUnreachable})
		}
		return lost
	}
	w.wait() // who was stopped may have asked for something as it went
	w.net.mu.Lock()
	w.net.arrived = slices.DeleteFunc(w.net.arrived, onTheirWay)
	w.net.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, onTheirWay)
	for _, t := range w.streams {
		if t.front == p.front {
			t.end(errUnreachable)
			w.wait()
		}
	}
}

// populated says that a syncer has recorded that namespaces of ours are there, and
// that they should be.
func (p *physical) populated() bool {
	pc, ok := p.world.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
	return ok && pc.Status.Identity.Populated && pc.Status.Identity.Emptied == nil && p.expected() > 0
}

// expected counts the namespaces that Copies say are there.
func (p *physical) expected() (n int) {
	for _, obj := range p.world.api.List(copies) {
		c := obj.(*placementv1alpha1.Copy)
		state := c.Status.State
		if c.Spec.PhysicalCluster == p.name && objectOf(c).Resource == namespaces && c.Status.PhysicalUID != "" &&
			state != placementv1alpha1.CopyRemoving && state != placementv1alpha1.CopyRemoved {
			n++
		}
	}
	return n
}

// waitsEmpty says that an emptied cluster has not been confirmed.
func (p *physical) waitsEmpty() bool {
	pc, ok := p.world.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
	if p.emptied && (!ok || !pc.Status.Identity.Populated || p.world.ledger.turnedBack > 0 || p.expected() == 0) {
		p.emptied = false // confirmed, or nothing is missing any more
	}
	return p.emptied
}

// rewound forgets what anybody has heard of changes that have not happened.
func (f *front) rewound() {
	f.began = f.store.Revision()
	for gr, n := range f.heard {
		f.heard[gr] = min(n, len(f.store.Log(gr)))
	}
}

// swapCredentials gives the syncer of a physical cluster the credentials of another
// one, for a while.
func (w *World) swapCredentials(h Happening) {
	p := w.cluster(h.Physical)
	if p.dead || !p.registered || p.behind != p.front {
		return
	}
	other := w.clusters[h.N%len(w.clusters)]
	if other == p || other.dead {
		return
	}
	p.connect(other.front)
	w.after(downtime(h.N)+5*time.Second, func() { p.connect(p.front) })
}

// connect starts the syncer with other credentials.
func (p *physical) connect(f *front) {
	if p.dead || p.behind == f {
		return
	}
	p.world.say("credentials of %s lead to %s", p.name, f.name)
	p.behind = f
	for len(p.syncers) > 0 {
		p.syncers[0].crash()
	}
	p.startSyncer()
}
