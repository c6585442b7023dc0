package physicalclusters

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// heartbeats remembers when this process saw which renewal of each Lease, and which refusal of
// each syncer.
type heartbeats struct {
	mu             sync.Mutex
	last, refusals map[string]renewal
	// standstill has for how long this process stood still, if that is measured; stood is what of that is in the times above.
	standstill *controller.Standstill
	stood      time.Duration
}

type renewal struct {
	time time.Time
	seen time.Time
}

func newHeartbeats(s *controller.Standstill) *heartbeats {
	return &heartbeats{last: map[string]renewal{}, refusals: map[string]renewal{}, standstill: s}
}

// goOn takes a standstill out of all times: no syncer could be heard in it, nor say anything to the only server. The
// lock is held.
func (h *heartbeats) goOn() {
	if h.standstill == nil {
		return
	}
	stood, _ := h.standstill.Stood()
	by := stood - h.stood
	if h.stood = stood; by == 0 {
		return
	}
	for _, all := range []map[string]renewal{h.last, h.refusals} {
		for name, r := range all {
			all[name] = renewal{r.time, r.seen.Add(by)}
		}
	}
}

// of takes note of a Lease, nil if there is none, and returns the last sign of
// life of the physical cluster.
func (h *heartbeats) of(name string, lease *coordinationv1.Lease, now time.Time) heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.goOn()
	if lease == nil || lease.Spec.RenewTime == nil {
		delete(h.last, name)
		return heartbeat{}
	}
	return heartbeat{ever: true, seen: seen(h.last, name, lease.Spec.RenewTime.Time, now)}
}

// ofRefusals takes note of a refusal that any server has written: a syncer that is refused lives.
func (h *heartbeats) ofRefusals(pc *fleetv1alpha1.PhysicalCluster, now time.Time) heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.goOn()
	if pc.Status.Syncer == nil || pc.Status.Syncer.RefusedAt == nil {
		delete(h.refusals, pc.Name)
		return heartbeat{}
	}
	return heartbeat{ever: true, seen: seen(h.refusals, pc.Name, pc.Status.Syncer.RefusedAt.Time, now)}
}

// later is the last sign of life of two.
func later(a, b heartbeat) heartbeat {
	if !a.ever || b.ever && b.seen.After(a.seen) {
		return b
	}
	return a
}

// seen is when this process saw the last sign of life, which was given at.
func seen(last map[string]renewal, name string, at, now time.Time) time.Time {
	r, ok := last[name]
	if !ok || !r.time.Equal(at) {
		r = renewal{time: at, seen: now}
		last[name] = r
	}
	return r.seen
}

// forget: the physical cluster is gone.
func (h *heartbeats) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, name)
	delete(h.refusals, name)
}
