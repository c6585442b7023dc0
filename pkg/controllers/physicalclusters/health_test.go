package physicalclusters

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
)

var noon = time.Unix(1_000_000, 0)

func TestSilenceIsUnknownAndNothingElse(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}
	}
	ready := condition("Ready", metav1.ConditionTrue, "Heartbeat", time.Hour)
	syncing := condition("Syncing", metav1.ConditionTrue, "Watching", time.Hour)
	broken := condition("Ready", metav1.ConditionFalse, "Unreachable", time.Hour)
	seen := func(ago time.Duration) heartbeat { return heartbeat{ever: true, seen: noon.Add(-ago)} }
	for _, c := range []struct {
		name       string
		connection fleetv1alpha1.ConnectionType
		forget     bool
		reported   []metav1.Condition
		heartbeat  heartbeat
		want       map[string]string
		holds      time.Duration
	}{
		{"never heard of", "", false, nil, heartbeat{}, map[string]string{"Ready": "Unknown NoHeartbeat"}, 0},
		{"a report before the first Lease", "", false, []metav1.Condition{condition("Ready", metav1.ConditionTrue, "Heartbeat", 10*time.Second)}, heartbeat{}, map[string]string{"Ready": "True Heartbeat"}, 30 * time.Second},
		{"an old report and no Lease", "", false, []metav1.Condition{ready}, heartbeat{}, map[string]string{"Ready": "Unknown HeartbeatLost", "Syncing": "Unknown HeartbeatLost"}, 0},
		{"still never heard of", "", false, []metav1.Condition{condition("Ready", metav1.ConditionUnknown, "NoHeartbeat", time.Hour)}, heartbeat{}, map[string]string{"Ready": "Unknown NoHeartbeat"}, 0},
		{"fresh", "", false, []metav1.Condition{ready, syncing}, seen(39 * time.Second), map[string]string{"Ready": "True Heartbeat", "Syncing": "True Watching"}, time.Second},
		{"silent", "", false, []metav1.Condition{ready, syncing}, seen(40 * time.Second), map[string]string{"Ready": "Unknown HeartbeatLost", "Syncing": "Unknown HeartbeatLost"}, 0},
		{"silent after a failure", fleetv1alpha1.ConnectionPull, false, []metav1.Condition{broken}, seen(time.Minute), map[string]string{"Ready": "Unknown HeartbeatLost", "Syncing": "Unknown HeartbeatLost"}, 0},
		{"the server says why", fleetv1alpha1.ConnectionPush, false, []metav1.Condition{broken}, seen(time.Minute), map[string]string{"Ready": "False Unreachable"}, 0},
		{"the server cannot even begin", fleetv1alpha1.ConnectionPush, false, []metav1.Condition{condition("Ready", metav1.ConditionFalse, "InvalidKubeconfig", time.Hour)}, heartbeat{}, map[string]string{"Ready": "False InvalidKubeconfig"}, 0},
		{"given up, its syncer lives", "", true, []metav1.Condition{ready, syncing}, seen(39 * time.Second), map[string]string{"Ready": "True Heartbeat", "Syncing": "False Forgotten"}, time.Second},
		{"given up and silent", "", true, []metav1.Condition{ready, syncing}, seen(time.Minute), map[string]string{"Ready": "Unknown HeartbeatLost", "Syncing": "False Forgotten"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pc := &fleetv1alpha1.PhysicalCluster{}
			pc.Spec.Connection.Type, pc.Spec.Forget = c.connection, c.forget
			pc.Status.Conditions = c.reported
			conditions, holds := health(pc, c.heartbeat, noon)
			got := map[string]string{}
			for _, x := range conditions {
				got[x.Type] = string(x.Status) + " " + x.Reason
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if holds != c.holds {
				t.Errorf("holds for %s, not %s", holds, c.holds)
			}
			pc.Status.Conditions = conditions
			again, _ := health(pc, c.heartbeat, noon.Add(time.Millisecond))
			if diff := cmp.Diff(conditions, again); diff != "" {
				t.Errorf("the second look changes something:\n%s", diff)
			}
		})
	}
}

func TestHeartbeatsCountFromWhenTheyWereSeen(t *testing.T) {
	lease := func(at time.Time) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(at)
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	h := newHeartbeats(nil)
	if got := h.of("east", nil, noon); got.ever {
		t.Errorf("a heartbeat without a Lease: %+v", got)
	}
	old := lease(noon.Add(-time.Hour)) // as after a restart, or by a slow clock
	first := h.of("east", old, noon)
	if want := (heartbeat{ever: true, seen: noon}); first != want {
		t.Errorf("first %+v, not %+v", first, want)
	}
	if later := h.of("east", old, noon.Add(time.Minute)); later != first {
		t.Errorf("the same renewal is new: %+v", later)
	}
	if renewed := h.of("east", lease(noon.Add(-time.Minute)), noon.Add(time.Minute)); !renewed.seen.Equal(noon.Add(time.Minute)) {
		t.Errorf("a renewal is not new: %+v", renewed)
	}
}

// A syncer could neither be heard by a server that stood still, nor renew its Lease at the only one.
func TestNoSyncerIsSilentBecauseTheServerStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewed := metav1.NewMicroTime(noon)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.LeaseNamespace, Name: "east"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		clock := clocktesting.NewFakePassiveClock(noon)
		standstill := controller.NewStandstill(clock)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); standstill.Run(ctx) }()
		synctest.Wait()
		c := &Controller{Config: Config{Clock: clock, Refusals: NewRefusals(clock), Kube: kubefake.NewClientset(lease)}, heartbeats: newHeartbeats(standstill)}
		says := func() string {
			pc := works()
			known, err := c.confirmSilence(t.Context(), pc, lease, clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			c.concludeHealth(pc, known, clock.Now())
			return conditions(pc)["Ready"]
		}
		want := func(what, want string) {
			t.Helper()
			if got := says(); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		want("it renewed its Lease just now", "True Well")
		clock.SetTime(noon.Add(time.Hour))
		want("nothing ran for an hour", "True Well")
		at := noon.Add(time.Hour)
		for range int(placement.Silence/time.Second) - 1 {
			at = at.Add(time.Second)
			clock.SetTime(at)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		want("the server runs again, and the syncer says nothing", "True Well")
		clock.SetTime(at.Add(time.Second))
		want("for as long as any other", "Unknown HeartbeatLost")
		stop()
		<-done
	})
}

// A server that stood still beside others has not heard of the renewals that there were.
func TestThatASyncerIsSilentIsConfirmedByTheServer(t *testing.T) {
	lease := func(at time.Time) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(at)
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.LeaseNamespace, Name: "east"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	for name, c := range map[string]struct {
		live []runtime.Object
		fail error
		want string
	}{
		"it renewed the Lease meanwhile": {live: []runtime.Object{lease(noon.Add(39 * time.Second))}, want: "True Well"},
		"it did not":                     {live: []runtime.Object{lease(noon)}, want: "Unknown HeartbeatLost"},
		"the Lease is gone":              {want: "Unknown HeartbeatLost"},
		"nobody knows":                   {live: []runtime.Object{lease(noon)}, fail: errors.New("not now"), want: "True Well"},
	} {
		t.Run(name, func(t *testing.T) {
			clock, kube := clocktesting.NewFakePassiveClock(noon), kubefake.NewClientset(c.live...)
			asked := 0
			kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return c.fail != nil, nil, c.fail
			})
			control := &Controller{Config: Config{Clock: clock, Refusals: NewRefusals(clock), Kube: kube}, heartbeats: newHeartbeats(nil)}
			pc := works()
			for range 3 { // at noon, and twice after it stood still
				known, err := control.confirmSilence(t.Context(), pc, lease(noon), clock.Now())
				if err != nil && !errors.Is(err, c.fail) {
					t.Fatal(err)
				}
				if err == nil {
					control.concludeHealth(pc, known, clock.Now())
				}
				clock.SetTime(noon.Add(placement.Silence))
			}
			if diff := cmp.Diff(c.want, conditions(pc)["Ready"]); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if most := 2; asked == 0 || asked > most || c.fail == nil && asked > 1 {
				t.Errorf("the server was asked %d times", asked)
			}
		})
	}
}
