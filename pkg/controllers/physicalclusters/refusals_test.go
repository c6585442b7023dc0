package physicalclusters

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/skew"
)

var old = refusal{said: skew.Side{Build: "v1", Revision: 1}, why: "the syncer is too old", at: noon}

func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](12)}}
}

func conditions(pc *fleetv1alpha1.PhysicalCluster) map[string]string {
	out := map[string]string{}
	for _, c := range pc.Status.Conditions {
		out[c.Type] = fmt.Sprint(c.Status, " ", c.Reason)
	}
	return out
}

// works is a physical cluster whose syncer reported well.
func works() *fleetv1alpha1.PhysicalCluster {
	pc := east("u", false)
	pc.Status.Syncer = &fleetv1alpha1.SyncerVersion{Version: "v2", Revision: 2}
	for _, kind := range []string{"Ready", "Syncing"} {
		meta.SetStatusCondition(&pc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Well"})
	}
	return pc
}

func TestARefusalIsWrittenWhenNoOtherSyncerWorks(t *testing.T) {
	well := map[string]string{"Ready": "True Well", "Syncing": "True Well"}
	refused := map[string]string{"Ready": "False IncompatibleSyncer", "Syncing": "False IncompatibleSyncer"}
	seen := func(ago time.Duration) heartbeat { return heartbeat{ever: true, seen: noon.Add(-ago)} }
	for _, c := range []struct {
		name  string
		lease *coordinationv1.Lease
		heard heartbeat
		want  map[string]string
	}{
		{"another one works, or this one with another server", leaseOf("west"), seen(11 * time.Second), well},
		{"nobody has renewed the Lease", leaseOf("west"), seen(12 * time.Second), refused},
		{"the Lease was given back", leaseOf(""), seen(0), refused},
		{"there never was one", nil, heartbeat{}, refused},
	} {
		pc := works()
		refuse(pc, old, c.lease, c.heard, noon)
		if diff := cmp.Diff(c.want, conditions(pc)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if noted := pc.Status.Syncer.RefusedAt != nil; noted != (c.want["Ready"] == refused["Ready"]) {
			t.Errorf("%s: %+v", c.name, pc.Status.Syncer)
		}
	}
	given := works()
	given.Spec.Forget = true
	refuse(given, old, nil, heartbeat{}, noon)
	if diff := cmp.Diff(map[string]string{"Ready": "False IncompatibleSyncer", "Syncing": "True Well"}, conditions(given)); diff != "" {
		t.Errorf("given up (-want +got):\n%s", diff)
	}
}

// A syncer that is refused lives: two servers, of which one refuses it, agree on that for as long
// as it asks, and soon afterwards that it is silent.
func TestARefusedSyncerIsNotSilentForAnyServerUntilItEnds(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon)
	refusing := &Controller{Config: Config{Clock: clock, Refusals: NewRefusals(clock)}, heartbeats: newHeartbeats(nil)}
	other := &Controller{Config: Config{Clock: clock, Refusals: NewRefusals(clock)}, heartbeats: newHeartbeats(nil)}
	pc, writes := works(), 0
	// look has each server look twice, as after its own write, and counts what is written.
	look := func() {
		for _, c := range []*Controller{refusing, refusing, other, other} {
			before := pc.DeepCopy()
			c.concludeHealth(pc, nil, clock.Now())
			if !cmp.Equal(before.Status, pc.Status) {
				writes++
			}
		}
	}
	for clock.Now().Before(noon.Add(5 * time.Minute)) {
		refusing.Refusals.Note("east", old.said, old.why)
		look()
		if got := conditions(pc)["Ready"]; got != "False IncompatibleSyncer" {
			t.Fatalf("after %s: %s", clock.Now().Sub(noon), got)
		}
		clock.SetTime(clock.Now().Add(5 * time.Second))
	}
	if most := int(5*time.Minute/refusedInterval) + 1; writes > most {
		t.Errorf("the status was written %d times, want at most %d", writes, most)
	}
	writes = 0
	for end := clock.Now().Add(placement.Silence); clock.Now().Before(end); clock.SetTime(clock.Now().Add(time.Second)) {
		look()
	}
	if ready := meta.FindStatusCondition(pc.Status.Conditions, "Ready"); ready.Reason != fleetv1alpha1.ReasonHeartbeatLost || writes > 2 {
		t.Errorf("%s after the last refusal: %+v, written %d times", placement.Silence, ready, writes)
	}
}

func TestRefusalsAreNotedOnceInAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon)
	r, notified := NewRefusals(clock), 0
	r.Note("east", old.said, old.why) // nobody follows yet
	r.follow(func(string) { notified++ })
	for range 100 {
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
		r.Note("east", old.said, fmt.Sprint("it claims to be ", notified))
	}
	if notified != 2 {
		t.Errorf("100 requests in ten seconds are noted %d times", notified)
	}
	if _, ok := r.of("west", clock.Now()); ok {
		t.Error("another one was refused, too")
	}
	if last, ok := r.of("east", clock.Now()); !ok || last.said != old.said {
		t.Errorf("%+v, %t", last, ok)
	}
	if _, ok := r.of("east", clock.Now().Add(time.Hour)); ok {
		t.Error("one that does not ask any more is refused for ever")
	}
	r.forget("east")
	if _, ok := r.of("east", clock.Now()); ok {
		t.Error("it is not forgotten")
	}
}
