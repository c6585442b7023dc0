package reserve

import (
	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// total is what is on a physical cluster. Its lists are not changed, but replaced: snapshots have them.
type total struct {
	// units are those that are decided, and those that have reserved and are not.
	units int
	// letIn is what the units count for, assumed what is reserved.
	letIn, assumed corev1.ResourceList
	// parts are the decisions and reservations that are summed up here.
	parts int
}

// change has what is known of a unit changed, and the sums with it.
func (l *Ledger) change(u Unit, change func()) {
	l.sum(u, -1)
	change()
	l.sum(u, +1)
}

// sum adds all that a unit takes, or takes it away if n is -1.
func (l *Ledger) sum(u Unit, n int) {
	decided := l.counted[u]
	for name, requests := range decided {
		l.take(name, func(t *total) { t.addUnit(requests, n) })
	}
	e, _ := l.reserved(u)
	for _, name := range e.physicalClusters {
		_, counted := decided[name]
		l.take(name, func(t *total) {
			t.assumed = plus(t.assumed, e.requests, n)
			if t.parts += n; !counted {
				t.addUnit(e.requests, n)
			}
		})
	}
}

// countUnowned adds what is decided and does not say for which namespace: it is there all the same.
func (l *Ledger) countUnowned(p *placementv1alpha1.Placement, n int) {
	if unitOf(p) != (Unit{}) {
		return
	}
	for name, requests := range countedOn(p) {
		l.take(name, func(t *total) { t.addUnit(requests, n) })
	}
}

func (l *Ledger) take(name string, change func(*total)) {
	t := l.totals[name]
	change(&t)
	if t.parts == 0 {
		delete(l.totals, name) // it may be gone for good
		return
	}
	l.totals[name] = t
}

// addUnit counts a unit with what it requests.
func (t *total) addUnit(requests corev1.ResourceList, n int) {
	t.units += n
	t.parts += n
	t.letIn = plus(t.letIn, requests, n)
}

// reserved is the reservation of a unit that counts: what is about to be stored rather than what is.
func (l *Ledger) reserved(u Unit) (entry, bool) {
	if e, ok := l.own[u]; ok {
		return e, true
	}
	e, ok := l.stored[u]
	return e, ok
}

// plus is a list with n times what another one has.
func plus(list, more corev1.ResourceList, n int) corev1.ResourceList {
	if len(more) == 0 {
		return list
	}
	out := make(corev1.ResourceList, max(len(list), len(more)))
	for name, quantity := range list {
		out[name] = quantity.DeepCopy()
	}
	for name, quantity := range more {
		total := out[name]
		if n < 0 {
			total.Sub(quantity)
		} else {
			total.Add(quantity)
		}
		if out[name] = total; total.IsZero() {
			delete(out, name) // names are for anybody to choose
		}
	}
	return out
}

// noted is a snapshot in which what is taken was noted.
type noted struct {
	*Ledger
	all []placement.PhysicalCluster
	// at is where they are by name, once somebody looks.
	at map[string]int
}

// note notes all of it.
func (l *Ledger) note(s placement.Snapshot) *noted {
	for i := range s.PhysicalClusters {
		c := &s.PhysicalClusters[i]
		t := l.totals[c.Name]
		c.Placements, c.LetIn, c.Assumed = t.units, t.letIn, t.assumed
	}
	return &noted{Ledger: l, all: s.PhysicalClusters}
}

func (n *noted) find(name string) *placement.PhysicalCluster {
	if n.at == nil {
		n.at = make(map[string]int, len(n.all))
		for i := range n.all {
			n.at[n.all[i].Name] = i
		}
	}
	if i, ok := n.at[name]; ok {
		return &n.all[i]
	}
	return nil
}

// add adds what a unit has reserved, or takes it away.
func (n *noted) add(u Unit, e entry, times int) {
	for _, name := range e.physicalClusters {
		c := n.find(name)
		if c == nil {
			continue
		}
		if _, counted := n.counted[u][name]; !counted {
			c.Placements += times
			c.LetIn = plus(c.LetIn, e.requests, times)
		}
		c.Assumed = plus(c.Assumed, e.requests, times)
	}
}

// without takes away that a unit is decided where it has reserved.
func (n *noted) without(u Unit, e entry) {
	for _, name := range e.physicalClusters {
		requests, counted := n.counted[u][name]
		if c := n.find(name); c != nil && counted {
			c.Placements--
			c.LetIn = plus(c.LetIn, requests, -1)
		}
	}
}
