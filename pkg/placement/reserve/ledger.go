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
//
// What it has is summed up as it comes and goes, by physical cluster, so that a decision costs as much beside a
// hundred thousand units, and with all that was reserved within a minute, as beside none.
type Ledger struct {
	// stored are the reservations that the informer has, own those that this server is about
	// to store. Of a unit that is in both, its own counts.
	stored, own map[Unit]entry
	// counted has the units of which the informer has a decision, with what that counts for by physical
	// cluster.
	counted map[Unit]map[string]corev1.ResourceList
	// totals sum all of this by physical cluster.
	totals map[string]total
	// ends has when reservations end, and order the stored ones in the order of their versions.
	ends  ends
	order order
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
	return &Ledger{stored: map[Unit]entry{}, own: map[Unit]entry{}, counted: map[Unit]map[string]corev1.ResourceList{}, totals: map[string]total{}}
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
	if r == nil {
		return
	}
	e := entryOf(r, now)
	l.change(u, func() { l.own[u] = e })
	l.ends.add(u, e.expires)
}

// Forget counts no more what was assumed.
func (l *Ledger) Forget(u Unit) {
	if _, ok := l.own[u]; ok {
		l.change(u, func() { delete(l.own, u) })
	}
}

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
	l.countUnowned(old, -1)
	l.countUnowned(new, +1)
	was, is := unitOf(old), unitOf(new)
	if was != is && was != (Unit{}) {
		l.change(was, func() {
			delete(l.counted, was)
			delete(l.stored, was)
		})
	}
	if is == (Unit{}) {
		return
	}
	before := old
	if was != is {
		before = nil
	}
	l.change(is, func() { l.set(is, before, new, now, live) })
}

// set is what a Placement says of its unit.
func (l *Ledger) set(u Unit, old, new *placementv1alpha1.Placement, now time.Time, live bool) {
	if on := countedOn(new); on != nil {
		l.counted[u] = on
	} else {
		delete(l.counted, u)
	}
	r := new.Spec.Reservation
	switch {
	case r == nil:
		delete(l.stored, u)
		return
	case old != nil && old.Spec.Reservation != nil && old.Spec.Reservation.At.Equal(&r.At):
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
	l.ends.add(u, e.expires)
	if live {
		l.order.add(u, e)
	}
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

// countedOn is what a placement counts for, by physical cluster; nil if it is not decided.
func countedOn(p *placementv1alpha1.Placement) map[string]corev1.ResourceList {
	if p == nil || p.Spec.Decision == nil {
		return nil
	}
	on := make(map[string]corev1.ResourceList, len(p.Spec.Decision.PhysicalClusters))
	for _, c := range p.Spec.Decision.PhysicalClusters {
		on[c.Name] = placement.Counted(c, p.Status.Requests)
	}
	return on
}

// expire forgets what the reports must contain by now.
func (l *Ledger) expire(now time.Time) {
	for u := range l.ends.until(now) {
		l.change(u, func() {
			for _, entries := range []map[Unit]entry{l.stored, l.own} {
				if e, ok := entries[u]; ok && !now.Before(e.expires) {
					delete(entries, u)
				}
			}
		})
	}
	l.order.expire(now)
}

// Note notes in a snapshot what all other units than one take: that has to be decided on
// top of them.
func (l *Ledger) Note(s placement.Snapshot, asked Unit, now time.Time) {
	l.expire(now)
	n := l.note(s)
	if e, ok := l.reserved(asked); ok {
		n.add(asked, e, -1)
	}
}

// NoteBefore notes in a snapshot what others took before a version, at which a unit
// reserved: of what is stored all but what is known to be later. The informer has to have
// reached that version.
func (l *Ledger) NoteBefore(s placement.Snapshot, asked Unit, version string, now time.Time) {
	l.expire(now)
	n := l.note(s)
	for u, e := range l.own { // these look themselves, when they are stored
		n.add(u, e, -1)
		if e, ok := l.stored[u]; ok {
			n.add(u, e, +1)
		}
	}
	if e, ok := l.stored[asked]; ok {
		n.add(asked, e, -1)
	}
	for u, at := range l.order.after(version) {
		if e, ok := l.stored[u]; ok && u != asked && e.version == at { // else it reserved again, or does no more
			n.add(u, e, -1)
			n.without(u, e)
		}
	}
}

// compare compares versions; known is false if one says nothing.
func compare(a, b string) (order int, known bool) {
	if a == "" {
		return 0, false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return order, err == nil
}
