package physicalclusters

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// heartbeats remembers when this process saw which renewal of each Lease.
type heartbeats struct {
	mu   sync.Mutex
	last map[string]renewal
}

type renewal struct {
	time time.Time
	seen time.Time
}

func newHeartbeats() *heartbeats { return &heartbeats{last: map[string]renewal{}} }

// of takes note of a Lease, nil if there is none, and returns the last sign of
// life of the physical cluster.
func (h *heartbeats) of(name string, lease *coordinationv1.Lease, now time.Time) heartbeat {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lease == nil || lease.Spec.RenewTime == nil {
		delete(h.last, name)
		return heartbeat{}
	}
	r, ok := h.last[name]
	if !ok || !r.time.Equal(lease.Spec.RenewTime.Time) {
		r = renewal{time: lease.Spec.RenewTime.Time, seen: now}
		h.last[name] = r
	}
	return heartbeat{ever: true, seen: r.seen}
}

// forget: the physical cluster is gone.
func (h *heartbeats) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, name)
}
