package physicalclusters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestHowLongADrainTakes(t *testing.T) {
	for _, c := range []struct {
		name        string
		left, ended int32
		since       time.Duration
		want        int32
	}{
		{"nothing is left", 0, 9, time.Hour, 0},
		{"only what cannot move is left", -1, 9, time.Hour, 0},
		{"nothing has left yet", 9, 0, time.Minute, 0},
		{"it has just begun", 9, 1, 0, 0},
		{"half of it has left", 10, 10, 45 * time.Second, 50},
		{"a third of it has left", 20, 10, 5 * time.Minute, 11 * 60},
		{"it takes hours", 90, 10, time.Hour, 9*3600 + 600},
		{"it stands still", 10, 10, 5 * time.Hour, 5*3600 + 600},
		{"it takes for ever", 1 << 30, 1, 1 << 62, 1<<31 - 1},
	} {
		if got := estimate(c.left, c.ended, c.since); got != c.want {
			t.Errorf("%s: %d s, want %d", c.name, got, c.want)
		}
	}
}

func TestADrainGoesOnFromWhatIsStored(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	later := noon.Add(time.Minute)
	for _, c := range []struct {
		name   string
		before *fleetv1alpha1.DrainStatus
		now    fleetv1alpha1.DrainStatus
		want   fleetv1alpha1.DrainStatus
	}{
		{"it begins", nil, fleetv1alpha1.DrainStatus{Namespaces: 9}, fleetv1alpha1.DrainStatus{Namespaces: 9, StartedAt: &metav1.Time{Time: later}}},
		{"a server from before began it", &fleetv1alpha1.DrainStatus{Namespaces: 9}, fleetv1alpha1.DrainStatus{Namespaces: 8}, fleetv1alpha1.DrainStatus{Namespaces: 8, StartedAt: &metav1.Time{Time: later}}},
		{"some have left", &fleetv1alpha1.DrainStatus{Namespaces: 9, Ended: 1, StartedAt: &noon}, fleetv1alpha1.DrainStatus{Namespaces: 7}, fleetv1alpha1.DrainStatus{Namespaces: 7, Ended: 3, StartedAt: &noon}},
		{"one was divided", &fleetv1alpha1.DrainStatus{Namespaces: 9, Ended: 1, StartedAt: &noon}, fleetv1alpha1.DrainStatus{Namespaces: 10}, fleetv1alpha1.DrainStatus{Namespaces: 10, Ended: 1, StartedAt: &noon}},
	} {
		goOn(c.before, &c.now, later)
		if diff := cmp.Diff(c.want, c.now); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestWhatADrainIsEstimatedFor(t *testing.T) {
	s := &fleetv1alpha1.DrainStatus{Namespaces: 10, Moving: 4, Stuck: 1, Queued: 3, Blocked: 3}
	if got := leavable(s, true); got != 6 {
		t.Errorf("%d, want what is not blocked or stuck", got)
	}
	if got := leavable(s, false); got != 3 {
		t.Errorf("after the deadline %d, want what moves", got)
	}
}
