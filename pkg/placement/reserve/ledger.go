package reserve

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// For is how long a reservation counts before the reports of the physical cluster must
// contain it: pods are made within seconds, and a report follows within ten more.
const For = time.Minute

// Unit is the UID of a Namespace and the name of a Placement in it.
type Unit struct {
	Namespace types.UID
	Name      string
}

// Ledger has what units took lately. Its methods are not to be called concurrently.
type Ledger struct {
	// stored are the reservations that the informer has, own those that this server is about
	// to store.
	stored, own map[Unit]entry
	// decided sums, by physical cluster, what the informer has that is decided, and counted has the units
	// of which it has a decision, with what that counts for.
	decided map[string]letIn
	counted map[Unit]map[string]corev1.ResourceList
}

// letIn is what is on a physical cluster by what is decided.
type letIn struct {
	units    int
	requests corev1.ResourceList
}

type entry struct {
	physicalClusters []string
	requests         corev1.ResourceList
	at, expires      time.Time
	// version is that at which it was stored; empty if that is not known.
	version string
}

// NewLedger returns an empty one.
func NewLedger() *Ledger {
	return &Ledger{stored: map[Unit]entry{}, own: map[Unit]entry{}, decided: map[string]letIn{}, counted: map[Unit]map[string]corev1.ResourceList{}}
}

// New is the reservation of a unit that is decided; nil if it stays where it is, or can go
// nowhere.
func New(u placement.Unit, d placement.Decision, now time.Time) *placementv1alpha1.Reservation {
	on := slices.DeleteFunc(slices.Clone(d.PhysicalClusters), func(name string) bool { return slices.Contains(u.Decided, name) })
	return On(on, d.Requests, now)
}

// On is the reservation of a unit that comes to physical clusters; nil for none.
func On(physicalClusters []string, requests corev1.ResourceList, now time.Time) *placementv1alpha1.Reservation {
	if len(physicalClusters) == 0 {
		return nil
	}
	r := &placementv1alpha1.Reservation{PhysicalClusters: slices.Sorted(slices.Values(physicalClusters)), Requests: requests.DeepCopy()}
	r.At.Time = now.Truncate(time.Microsecond) // as it is stored
	return r
}

// Assume counts what this server is about to store, until the informer has that, or Forget.
func (l *Ledger) Assume(u Unit, r *placementv1alpha1.Reservation, now time.Time) {
	if r != nil {
		l.own[u] = entryOf(r, now)
	}
}

// Forget counts no more what was assumed.
func (l *Ledger) Forget(u Unit) { delete(l.own, u) }

func entryOf(r *placementv1alpha1.Reservation, since time.Time) entry {
	return entry{physicalClusters: r.PhysicalClusters, requests: r.Requests, at: r.At.Time, expires: since.Add(For)}
}

// Observe takes note of a change of a Placement; nil is none. live says that it comes from
// a watch, which has all changes in their order.
//
//	the reservation              and it comes      then
//	is the one that was there    by any way        it ends when it would have ended
//	is another one               from a watch      it counts from now: clocks of servers differ
//	is another one               from a list       it counts from when it was made, and nobody
//	                                               knows what was stored before it
//	is gone                      by any way        it counts no more
func (l *Ledger) Observe(old, new *placementv1alpha1.Placement, now time.Time, live bool) {
	l.count(old, -1)
	l.count(new, +1)
	if was := unitOf(old); was != (Unit{}) && was != unitOf(new) {
		delete(l.stored, was)
	}
	u := unitOf(new)
	if u == (Unit{}) {
		return
	}
	r := new.Spec.Reservation
	switch {
	case r == nil:
		delete(l.stored, u)
		return
	case old != nil && unitOf(old) == u && old.Spec.Reservation != nil && old.Spec.Reservation.At.Equal(&r.At):
		return
	}
	if own, ok := l.own[u]; ok && !r.At.Time.Before(own.at) {
		delete(l.own, u)
	}
	e := entryOf(r, now)
	if live {
		e.version = new.ResourceVersion
	} else if r.At.Time.Before(now) {
		e.expires = r.At.Add(For)
	}
	l.stored[u] = e
}

func unitOf(p *placementv1alpha1.Placement) Unit {
	if p == nil {
		return Unit{}
	}
	if uid := stamp.UnitUID(p); uid != "" {
		return Unit{uid, p.Name}
	}
	return Unit{}
}

func (l *Ledger) count(p *placementv1alpha1.Placement, n int) {
	if p == nil {
		return
	}
	on := countedOn(p)
	for name, requests := range on {
		sum := l.decided[name]
		if sum.units += n; sum.units == 0 {
			delete(l.decided, name) // it may be gone for good
			continue
		}
		if sum.requests == nil {
			sum.requests = corev1.ResourceList{}
		}
		addTimes(sum.requests, requests, n)
		l.decided[name] = sum
	}
	if u := unitOf(p); u != (Unit{}) && on != nil {
		if n > 0 {
			l.counted[u] = on
		} else {
			delete(l.counted, u)
		}
	}
}

// countedOn is what a placement counts for, by physical cluster; nil if it is not decided.
func countedOn(p *placementv1alpha1.Placement) map[string]corev1.ResourceList {
	if p.Spec.Decision == nil {
		return nil
	}
	on := make(map[string]corev1.ResourceList, len(p.Spec.Decision.PhysicalClusters))
	for _, c := range p.Spec.Decision.PhysicalClusters {
		on[c.Name] = placement.Counted(c, p.Status.Requests)
	}
	return on
}

// addTimes adds requests to a sum, or takes them away if n is -1.
func addTimes(sum, requests corev1.ResourceList, n int) {
	for name, quantity := range requests {
		total := sum[name]
		if n < 0 {
			total.Sub(quantity)
		} else {
			total.Add(quantity)
		}
		sum[name] = total
	}
}

// expire forgets what the reports must contain by now.
func (l *Ledger) expire(now time.Time) {
	for _, entries := range []map[Unit]entry{l.stored, l.own} {
		for u, e := range entries {
			if !now.Before(e.expires) {
				delete(entries, u)
			}
		}
	}
}

// Note notes in a snapshot what all other units than one take: that has to be decided on
// top of them.
func (l *Ledger) Note(s placement.Snapshot, asked Unit, now time.Time) {
	l.expire(now)
	sum := l.sum(s)
	for u, e := range l.stored {
		if _, newer := l.own[u]; !newer && u != asked {
			sum.add(u, e)
		}
	}
	for u, e := range l.own {
		if u != asked {
			sum.add(u, e)
		}
	}
}

// NoteBefore notes in a snapshot what others took before a version, at which a unit
// reserved: of what is stored all but what is known to be later. The informer has to have
// reached that version.
func (l *Ledger) NoteBefore(s placement.Snapshot, asked Unit, version string, now time.Time) {
	l.expire(now)
	sum := l.sum(s)
	for u, e := range l.stored {
		switch {
		case u == asked:
		case !later(e.version, version):
			sum.add(u, e)
		default:
			sum.without(u, e)
		}
	}
}

// later says that a version is known to come after another one.
func later(version, than string) bool {
	if version == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// sum adds to the physical clusters of a snapshot, by name.
type sum struct {
	*Ledger
	physicalClusters map[string]*placement.PhysicalCluster
}

// sum begins with what is decided.
func (l *Ledger) sum(s placement.Snapshot) sum {
	out := sum{l, make(map[string]*placement.PhysicalCluster, len(s.PhysicalClusters))}
	for i := range s.PhysicalClusters {
		c := &s.PhysicalClusters[i]
		c.Placements, c.LetIn, c.Assumed = l.decided[c.Name].units, l.decided[c.Name].requests.DeepCopy(), corev1.ResourceList{}
		if c.LetIn == nil {
			c.LetIn = corev1.ResourceList{}
		}
		out.physicalClusters[c.Name] = c
	}
	return out
}

func (s sum) add(u Unit, e entry) {
	for _, name := range e.physicalClusters {
		c, ok := s.physicalClusters[name]
		if !ok {
			continue
		}
		if _, counted := s.counted[u][name]; !counted {
			c.Placements++
			addTimes(c.LetIn, e.requests, 1)
		}
		addTimes(c.Assumed, e.requests, 1)
	}
}

// without takes back that a unit is counted as decided where it has reserved.
func (s sum) without(u Unit, e entry) {
	for _, name := range e.physicalClusters {
		requests, counted := s.counted[u][name]
		if c, ok := s.physicalClusters[name]; ok && counted {
			c.Placements--
			addTimes(c.LetIn, requests, -1)
		}
	}
}
