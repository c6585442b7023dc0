package admission

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// assumeTTL is how long a decision counts before the reports of the physical
// cluster must contain it: pods are made within seconds, and a report follows
// within ten more.
const assumeTTL = time.Minute

// assumptions remembers what was decided lately and is not yet seen, so that
// many namespaces decided at once spread. It is a guess of this process only:
// without it decisions are less even, not wrong.
type assumptions struct {
	clock  clock.PassiveClock
	choose func(placement.Snapshot, placement.Unit) placement.Decision

	mu      sync.Mutex
	decided map[unitID]assumption
	// placements counts, by physical cluster, the decisions in the informer.
	placements map[string]int
	// seen are the units that placements counts.
	seen map[unitID]struct{}
}

// unitID is a unit: the UID of its Namespace and the name of its Placement.
type unitID struct {
	namespace types.UID
	name      string
}

type assumption struct {
	physicalClusters []string
	requests         corev1.ResourceList
	expires          time.Time
}

func newAssumptions(c clock.PassiveClock, choose func(placement.Snapshot, placement.Unit) placement.Decision, placements *controller.Informer[*placementv1alpha1.Placement]) *assumptions {
	a := &assumptions{clock: c, choose: choose, decided: map[unitID]assumption{}, placements: map[string]int{}, seen: map[unitID]struct{}{}}
	placements.Handle(a.observe)
	return a
}

// decide decides a unit on top of what is assumed and assumes the outcome;
// forget takes that back.
func (a *assumptions) decide(s placement.Snapshot, u placement.Unit, unit unitID) (d placement.Decision, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.assume(s, unit)
	d = a.choose(s, u)
	if d.Possible() {
		a.decided[unit] = assumption{physicalClusters: d.PhysicalClusters, requests: u.Requests, expires: a.clock.Now().Add(assumeTTL)}
	}
	return d, func() { a.forget(unit) }
}

// ask decides likewise, on top also of what who asks supposes, and assumes nothing.
func (a *assumptions) ask(s placement.Snapshot, u placement.Unit, unit unitID, supposed []placementv1alpha1.AssumedRequests) placement.Decision {
	a.note(s, unit)
	placement.Assume(s, supposed)
	return a.choose(s, u)
}

// prefer asks what is preferred likewise.
func (a *assumptions) prefer(s placement.Snapshot, u placement.Unit, unit unitID, supposed []placementv1alpha1.AssumedRequests) placement.Preference {
	a.note(s, unit)
	placement.Assume(s, supposed)
	return placement.Preferred(s, u)
}

// note is assume for who holds no lock.
func (a *assumptions) note(s placement.Snapshot, asked unitID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.assume(s, asked)
}

// assume notes in a snapshot what is assumed of others than the unit. The lock is held.
func (a *assumptions) assume(s placement.Snapshot, asked unitID) {
	a.expire()
	for i := range s.PhysicalClusters {
		c := &s.PhysicalClusters[i]
		c.Placements = a.placements[c.Name]
		c.Assumed = corev1.ResourceList{}
	}
	for unit, assumed := range a.decided {
		if unit == asked {
			continue // it takes no room from itself
		}
		for i := range s.PhysicalClusters {
			a.add(&s.PhysicalClusters[i], unit, assumed)
		}
	}
}

func (a *assumptions) add(c *placement.PhysicalCluster, unit unitID, assumed assumption) {
	for _, name := range assumed.physicalClusters {
		if name != c.Name {
			continue
		}
		if _, counted := a.seen[unit]; !counted {
			c.Placements++
		}
		c.Assume(assumed.requests)
	}
}

func (a *assumptions) forget(unit unitID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.decided, unit)
}

func (a *assumptions) expire() {
	now := a.clock.Now()
	for unit, assumed := range a.decided {
		if !now.Before(assumed.expires) {
			delete(a.decided, unit)
		}
	}
}

// observe counts the decisions of the informer.
func (a *assumptions) observe(old, new *placementv1alpha1.Placement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(old, -1)
	a.count(new, +1)
}

func (a *assumptions) count(p *placementv1alpha1.Placement, n int) {
	if p == nil {
		return
	}
	unit := stamp.Decided(p)
	for name := range unit {
		if a.placements[name] += n; a.placements[name] == 0 {
			delete(a.placements, name) // it may be gone for good
		}
	}
	if uid := stamp.UnitUID(p); uid != "" && unit != nil {
		if n > 0 {
			a.seen[unitID{uid, p.Name}] = struct{}{}
		} else {
			delete(a.seen, unitID{uid, p.Name})
		}
	}
}
