package physicalclusters

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/skew"
)

const (
	// refusedInterval is how often status.syncer.refusedAt is written: other servers hear by it
	// that the syncer lives, well before they would call it silent.
	refusedInterval = placement.Silence / 2
	// noteInterval is how often a syncer that asks again and again is looked at.
	noteInterval = 5 * time.Second
)

// Refusals remembers the syncers that this server has refused for their version.
type Refusals struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	last   map[string]refusal
	notify func(target string)
}

// refusal is the last one of a syncer.
type refusal struct {
	said skew.Side
	why  string
	at   time.Time
}

// NewRefusals makes one that remembers nothing.
func NewRefusals(c clock.PassiveClock) *Refusals {
	return &Refusals{clock: c, last: map[string]refusal{}, notify: func(string) {}}
}

// Note remembers that the syncer of target was refused. It is called with each such request.
func (r *Refusals) Note(target string, said skew.Side, why string) {
	now := r.clock.Now()
	r.mu.Lock()
	if before, known := r.last[target]; known && now.Sub(before.at) < noteInterval {
		r.mu.Unlock()
		return
	}
	r.last[target] = refusal{said: said, why: why, at: now}
	notify := r.notify
	r.mu.Unlock()
	notify(target)
}

// follow has notify called with each refusal from now on.
func (r *Refusals) follow(notify func(target string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = notify
}

// of is the last refusal of a syncer that still asks. It counts for no longer than what other
// servers have seen of it, which is as much older: two would contradict each other else.
func (r *Refusals) of(target string, now time.Time) (refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[target]
	return last, ok && now.Sub(last.at) < refusedInterval
}

// forget: the physical cluster is gone.
func (r *Refusals) forget(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, target)
}

// refuse writes a refusal into the status, unless another syncer works, or this one does with
// another server: who holds the Lease reports, and is asked first.
//
//	refused by this server  Lease    then
//	no                      any      nothing
//	yes                     held     nothing
//	yes                     expired  Ready and Syncing False, IncompatibleSyncer; refusedAt, at times
func refuse(pc *fleetv1alpha1.PhysicalCluster, r refusal, lease *coordinationv1.Lease, h heartbeat, now time.Time) {
	if isHeld(lease, h, now) {
		return
	}
	for _, kind := range []string{fleetv1alpha1.ConditionReady, fleetv1alpha1.ConditionSyncing} {
		if kind == fleetv1alpha1.ConditionSyncing && pc.Spec.Forget {
			continue
		}
		meta.SetStatusCondition(&pc.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: fleetv1alpha1.ReasonIncompatibleSyncer, Message: r.why,
			ObservedGeneration: pc.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	said := fleetv1alpha1.SyncerVersion{Version: r.said.Build, Revision: r.said.Revision}
	if before := pc.Status.Syncer; before != nil && before.RefusedAt != nil && r.at.Sub(before.RefusedAt.Time).Abs() < refusedInterval {
		said.RefusedAt = before.RefusedAt
	} else {
		at := metav1.NewTime(r.at).Rfc3339Copy()
		said.RefusedAt = &at
	}
	pc.Status.Syncer = &said
}

// isHeld says that a syncer holds the Lease, by the clock of this process.
func isHeld(lease *coordinationv1.Lease, h heartbeat, now time.Time) bool {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return h.ever && now.Before(h.seen.Add(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second))
}
