package reserve

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// event is a write to the store.
type event struct{ old, new *placementv1alpha1.Placement }

// world is several servers over one store, each of which hears of writes later.
type world struct {
	rand    *rand.Rand
	events  []event // the version of one is its index and 1
	objects map[string]*placementv1alpha1.Placement
	limit   fleetv1alpha1.PhysicalCluster
	servers []*deciding
	// reservations counts them: each has a time of its own.
	reservations int
}

// deciding is one server: what it has heard, and the units that it decides, each with the
// version of its reservation; 0 is none yet.
type deciding struct {
	ledger *Ledger
	heard  int
	units  map[string]int
	order  []string
}

func (w *world) write(p *placementv1alpha1.Placement) int {
	name := string(unitOf(p).Namespace)
	p.ResourceVersion = strconv.Itoa(len(w.events) + 1)
	w.events = append(w.events, event{w.objects[name], p})
	w.objects[name] = p
	return len(w.events)
}

func (w *world) snapshot() placement.Snapshot {
	return placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{{PhysicalCluster: &w.limit}}}
}

// hear has a server take note of one write; now and then it lists, which has no order.
func (w *world) hear(s *deciding) {
	if s.heard < len(w.events) {
		if w.rand.IntN(20) == 0 {
			w.list(s, w.events[s.heard:])
			return
		}
		e := w.events[s.heard]
		s.ledger.Observe(e.old, e.new, start, true)
		s.heard++
	}
}

// list has a server take note of what all writes that it has not heard of came to, by name.
func (w *world) list(s *deciding, missed []event) {
	first, last := map[string]*placementv1alpha1.Placement{}, map[string]*placementv1alpha1.Placement{}
	for _, e := range missed {
		name := string(unitOf(e.new).Namespace)
		if _, ok := last[name]; !ok {
			first[name] = e.old
		}
		last[name] = e.new
	}
	for _, one := range w.servers {
		for _, name := range one.order {
			if last[name] != nil {
				s.ledger.Observe(first[name], last[name], start, false)
			}
		}
	}
	s.heard = len(w.events)
}

// step has a server take the next step with one unit, and reports whether that is done.
func (w *world) step(s *deciding, name string, checks bool) (done bool) {
	u := placement.Unit{Needs: placement.Needs{Requests: cpu("1")}}
	version := s.units[name]
	switch {
	case version == 0:
		snapshot := w.snapshot()
		s.ledger.Note(snapshot, unit(name), start)
		if placement.Exceeds(snapshot.PhysicalClusters[0], u) != nil {
			return true // it waits
		}
		w.reservations++
		r := On([]string{"east"}, u.Requests, start.Add(time.Duration(w.reservations)*time.Microsecond))
		s.ledger.Assume(unit(name), r, start)
		p := stored(name, "")
		p.Spec.Reservation = r
		s.units[name] = w.write(p)
		return false
	case s.heard < version:
		w.hear(s)
		return false
	}
	snapshot := w.snapshot()
	s.ledger.NoteBefore(snapshot, unit(name), strconv.Itoa(version), start)
	p := w.objects[name].DeepCopy()
	if checks && placement.Exceeds(snapshot.PhysicalClusters[0], u) != nil {
		s.ledger.Forget(unit(name))
		p.Spec.Reservation = nil
		w.write(p)
		s.units[name] = 0
		return false
	}
	p.Spec.Decision = placement.Decision{PhysicalClusters: []string{"east"}}.API()
	w.write(p)
	return true
}

// run has three servers decide 30 units in an order that the seed picks, where there is room
// for 10, and counts those that are decided.
func run(seed uint64, limit func(*fleetv1alpha1.PhysicalCluster), checks bool) (decided int) {
	w := &world{rand: rand.New(rand.NewPCG(seed, 1)), objects: map[string]*placementv1alpha1.Placement{}} //nolint:gosec // a seed repeats it
	w.limit.Name = "east"
	limit(&w.limit)
	for n := range 3 {
		s := &deciding{ledger: NewLedger(), units: map[string]int{}}
		for i := range 10 {
			name := fmt.Sprintf("%d-%d", n, i)
			s.units[name] = 0
			s.order = append(s.order, name)
		}
		w.servers = append(w.servers, s)
	}
	done, all := map[string]bool{}, 0
	for all < 30 {
		s := w.servers[w.rand.IntN(3)]
		if w.rand.IntN(3) == 0 {
			w.hear(s)
			continue
		}
		name := s.order[w.rand.IntN(len(s.order))]
		if !done[name] && w.step(s, name, checks) {
			done[name] = true
			all++
		}
	}
	for _, p := range w.objects {
		if p.Spec.Decision != nil {
			decided++
		}
	}
	return decided
}

var limits = map[string]func(*fleetv1alpha1.PhysicalCluster){
	"a bound of namespaces": func(c *fleetv1alpha1.PhysicalCluster) {
		c.Spec.Bounds = corev1.ResourceList{fleetv1alpha1.BoundNamespaces: resource.MustParse("10")}
	},
	"a bound of cpu": func(c *fleetv1alpha1.PhysicalCluster) { c.Spec.Bounds = cpu("10") },
	"what is free":   func(c *fleetv1alpha1.PhysicalCluster) { c.Status.Allocatable = cpu("10") },
}

func TestSeveralServersFillWhatThereIsAndNoMore(t *testing.T) {
	t.Parallel()
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := 0
			for seed := range uint64(500) {
				n := run(seed, limit, true)
				if n > 10 {
					t.Fatalf("seed %d: %d units where there is room for 10", seed, n)
				}
				if n == 10 {
					full++
				}
			}
			if full < 400 { // who loses against what is withdrawn a moment later waits
				t.Errorf("only in %d of 500 worlds all room is taken", full)
			}
		})
	}
}

// The control: without the look at what was reserved before, each server gives away what
// others do.
func TestWithoutTheCheckSeveralServersGiveTheSameRoom(t *testing.T) {
	t.Parallel()
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := 0
			for seed := range uint64(50) {
				if run(seed, limit, false) > 10 {
					over++
				}
			}
			if over == 0 {
				t.Error("no world shows that the check is needed")
			}
		})
	}
}
