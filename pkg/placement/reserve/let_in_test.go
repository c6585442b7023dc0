package reserve

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// let is decided, and was let in with some requests.
func let(requests string, on ...string) func(*placementv1alpha1.Placement) {
	return func(p *placementv1alpha1.Placement) {
		p.Spec.Decision = placement.Decision{PhysicalClusters: on, Requests: cpu(requests)}.API()
	}
}

// wants is what its objects request now.
func wants(requests string) func(*placementv1alpha1.Placement) {
	return func(p *placementv1alpha1.Placement) { p.Status.Requests = cpu(requests) }
}

func TestWhatWasLetInIsCountedOnceForAsLongAsItIsThere(t *testing.T) {
	t.Parallel()
	a := stored("a", "10", let("2", "east"))
	reservedA := stored("a", "9", reserved(start, "2", "east"))
	both := stored("a", "10", reserved(start, "2", "east"), let("2", "east"))
	for name, test := range map[string]struct {
		changes [][2]*placementv1alpha1.Placement
		before  string // NoteBefore at this version
		want    string
	}{
		"nothing":                   {want: "0"},
		"one":                       {changes: [][2]*placementv1alpha1.Placement{{nil, a}}, want: "2"},
		"one elsewhere":             {changes: [][2]*placementv1alpha1.Placement{{nil, stored("a", "10", let("2", "west"))}}, want: "0"},
		"on both":                   {changes: [][2]*placementv1alpha1.Placement{{nil, stored("a", "10", let("2", "east", "west"))}}, want: "2"},
		"two":                       {changes: [][2]*placementv1alpha1.Placement{{nil, a}, {nil, stored("b", "11", let("3", "east"))}}, want: "5"},
		"reserved":                  {changes: [][2]*placementv1alpha1.Placement{{nil, reservedA}}, want: "2"},
		"reserved, and then let in": {changes: [][2]*placementv1alpha1.Placement{{nil, reservedA}, {reservedA, both}}, want: "2"},
		"it was scaled down":        {changes: [][2]*placementv1alpha1.Placement{{nil, a}, {a, stored("a", "11", let("2", "east"), wants("1"))}}, want: "1"},
		"it ended":                  {changes: [][2]*placementv1alpha1.Placement{{nil, a}, {a, stored("a", "11", let("2", "east"), wants("0"))}}, want: "0"},
		"it was scaled up, for which nobody asks": {changes: [][2]*placementv1alpha1.Placement{{nil, stored("a", "11", let("2", "east"), wants("9"))}}, want: "2"},
		"it has moved":                        {changes: [][2]*placementv1alpha1.Placement{{nil, a}, {a, stored("a", "11", let("2", "west"))}}, want: "0"},
		"it is gone":                          {changes: [][2]*placementv1alpha1.Placement{{nil, a}, {a, nil}}, want: "0"},
		"it was let in later":                 {changes: [][2]*placementv1alpha1.Placement{{nil, reservedA}, {reservedA, both}}, before: "8", want: "0"},
		"it was let in before":                {changes: [][2]*placementv1alpha1.Placement{{nil, reservedA}, {reservedA, both}}, before: "11", want: "2"},
		"it is elsewhere, and reserves later": {changes: [][2]*placementv1alpha1.Placement{{nil, stored("a", "10", let("2", "west"), reserved(start, "2", "east"))}}, before: "8", want: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			for _, c := range test.changes {
				l.Observe(c[0], c[1], start, true)
			}
			s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{
				{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}},
			}}
			l.Note(s, unit("c"), start)
			if test.before != "" {
				l.NoteBefore(s, unit("c"), test.before, start)
			}
			q := s.PhysicalClusters[0].LetIn[corev1.ResourceCPU]
			if diff := cmp.Diff(test.want, q.String()); diff != "" {
				t.Error(diff)
			}
			if s.PhysicalClusters[0].Placements < 0 {
				t.Errorf("%d placements", s.PhysicalClusters[0].Placements)
			}
		})
	}
}

// fill has units of one cpu ask one after the other, each long after the reservation of the one before,
// and counts those that come to a physical cluster that reports nothing.
func fill(t *testing.T, change func(*fleetv1alpha1.PhysicalCluster)) (came int) {
	t.Helper()
	east := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	east.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	east.Status.Allocatable = cpu("1000")
	change(east)
	l, now := NewLedger(), start
	for n := range 20 {
		now = now.Add(2 * For)
		s := placement.Snapshot{Now: now, PhysicalClusters: []placement.PhysicalCluster{{PhysicalCluster: east}}}
		u := placement.Unit{Needs: placement.Needs{Requests: cpu("1")}}
		name := fmt.Sprint(n)
		l.Note(s, unit(name), now)
		d := placement.Decide(s, u)
		if !d.Possible() {
			continue
		}
		came++
		p := stored(name, fmt.Sprint(n+1))
		p.Spec.Reservation, p.Spec.Decision = New(u, d, now), d.API()
		l.Observe(nil, p, now, true)
	}
	return came
}

func TestWhoReportsNothingGetsNoMoreThanItsAdminPermits(t *testing.T) {
	t.Parallel()
	if n := fill(t, func(c *fleetv1alpha1.PhysicalCluster) { c.Spec.Bounds = cpu("10") }); n != 10 {
		t.Errorf("%d units came where 10 are permitted", n)
	}
	if n := fill(t, func(c *fleetv1alpha1.PhysicalCluster) { c.Spec.Bounds = cpu("10"); c.Status.Requested = cpu("4") }); n != 10 {
		t.Errorf("%d units came where 10 are permitted, of which it reports 4", n)
	}
	if n := fill(t, func(*fleetv1alpha1.PhysicalCluster) {}); n != 20 {
		t.Errorf("the control: %d of 20 units came where an admin bounds nothing", n)
	}
	if n := fill(t, func(c *fleetv1alpha1.PhysicalCluster) {
		c.Spec.Bounds = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}
	}); n != 20 {
		t.Errorf("the control: %d of 20 units came where an admin bounds something else", n)
	}
}
