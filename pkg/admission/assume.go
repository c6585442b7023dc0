package admission

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/reserve"
)

// assumptions are what units take that physical clusters do not report yet: what is reserved
// in etcd, as the informer has it, and ahead of it what this process is about to write there.
type assumptions struct {
	clock      clock.PassiveClock
	choose     func(placement.Snapshot, placement.Unit) placement.Decision
	placements *controller.Informer[*placementv1alpha1.Placement]

	mu     sync.Mutex
	ledger *reserve.Ledger
}

func newAssumptions(c clock.PassiveClock, choose func(placement.Snapshot, placement.Unit) placement.Decision, placements *controller.Informer[*placementv1alpha1.Placement]) *assumptions {
	a := &assumptions{clock: c, choose: choose, placements: placements, ledger: reserve.NewLedger()}
	placements.Handle(a.observe)
	return a
}

// decide decides a unit on top of what is assumed and assumes the outcome, which is returned
// as what is to be stored; forget takes that back.
func (a *assumptions) decide(s placement.Snapshot, u placement.Unit, unit reserve.Unit) (d placement.Decision, r *placementv1alpha1.Reservation, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.ledger.Note(s, unit, now)
	d = a.choose(s, u)
	r = reserve.New(u, d, now)
	a.ledger.Assume(unit, r, now)
	return d, r, func() { a.forget(unit) }
}

// ask decides likewise, on top also of what who asks supposes, and assumes nothing.
func (a *assumptions) ask(s placement.Snapshot, u placement.Unit, unit reserve.Unit, supposed []placementv1alpha1.AssumedRequests) placement.Decision {
	a.note(s, unit)
	placement.Assume(s, supposed)
	return a.choose(s, u)
}

// prefer asks what is preferred likewise.
func (a *assumptions) prefer(s placement.Snapshot, u placement.Unit, unit reserve.Unit, supposed []placementv1alpha1.AssumedRequests) placement.Preference {
	a.note(s, unit)
	placement.Assume(s, supposed)
	return placement.Preferred(s, u)
}

// note notes in a snapshot what others than a unit have reserved.
func (a *assumptions) note(s placement.Snapshot, unit reserve.Unit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.Note(s, unit, a.clock.Now())
}

// before notes in a snapshot what others took before a unit reserved, at a version that the
// informer has reached.
func (a *assumptions) before(s placement.Snapshot, unit reserve.Unit, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.NoteBefore(s, unit, version, a.clock.Now())
}

// Of a write of its own a server hears within milliseconds. One that does not is cut off from what
// others write.
const (
	hearInterval = time.Millisecond
	hearTimeout  = 5 * time.Second
)

// hear waits until the informer has all that was stored up to a version, and says whether it
// has.
func (a *assumptions) hear(ctx context.Context, version string) bool {
	return wait.PollUntilContextTimeout(ctx, hearInterval, hearTimeout, true, func(context.Context) (bool, error) {
		return a.placements.Reached(version), nil
	}) == nil
}

func (a *assumptions) forget(unit reserve.Unit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.Forget(unit)
}

// observe takes note of what the informer has.
func (a *assumptions) observe(old, new *placementv1alpha1.Placement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.Observe(old, new, a.clock.Now(), a.placements.Watches())
}
