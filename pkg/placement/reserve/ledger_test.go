package reserve

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

var start = time.Unix(1_000_000, 0)

func cpu(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

// stored is the placement of a unit at a version.
func stored(unit, version string, change ...func(*placementv1alpha1.Placement)) *placementv1alpha1.Placement {
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Name: "namespace", ResourceVersion: version,
		OwnerReferences: []metav1.OwnerReference{{Kind: "Namespace", UID: types.UID(unit), Controller: ptr.To(true)}},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func reserved(at time.Time, requests string, on ...string) func(*placementv1alpha1.Placement) {
	return func(p *placementv1alpha1.Placement) { p.Spec.Reservation = On(on, cpu(requests), at) }
}

func decided(on ...string) func(*placementv1alpha1.Placement) {
	return func(p *placementv1alpha1.Placement) {
		p.Spec.Decision = placement.Decision{PhysicalClusters: on}.API()
	}
}

func unit(name string) Unit { return Unit{types.UID(name), "namespace"} }

// taken is what is counted of one physical cluster.
type taken struct {
	Placements int
	CPU        string
}

func takenOf(note func(placement.Snapshot)) taken {
	s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{
		{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}},
		{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}}},
	}}
	note(s)
	q := s.PhysicalClusters[0].Assumed[corev1.ResourceCPU]
	return taken{s.PhysicalClusters[0].Placements, q.String()}
}

func TestWhatOthersTakeIsCountedOnce(t *testing.T) {
	t.Parallel()
	type change struct {
		old, new *placementv1alpha1.Placement
		after    time.Duration
		list     bool
	}
	reservedA := stored("a", "10", reserved(start, "2", "east"))
	decidedA := stored("a", "11", reserved(start, "2", "east"), decided("east"))
	for name, test := range map[string]struct {
		changes []change
		own     *placementv1alpha1.Reservation // of unit a
		asked   string
		at      time.Duration
		want    taken
	}{
		"nothing":                        {want: taken{0, "0"}},
		"what is reserved":               {changes: []change{{new: reservedA}}, want: taken{1, "2"}},
		"what is reserved elsewhere":     {changes: []change{{new: stored("a", "10", reserved(start, "2", "west"))}}, want: taken{0, "0"}},
		"what is reserved, then decided": {changes: []change{{new: reservedA}, {old: reservedA, new: decidedA}}, want: taken{1, "2"}},
		"a unit takes nothing of itself": {changes: []change{{new: reservedA}}, asked: "a", want: taken{0, "0"}},
		"what is about to be stored":     {own: On([]string{"east"}, cpu("3"), start), want: taken{1, "3"}},
		"what is about to be stored anew counts, not what it had": {
			changes: []change{{new: reservedA}}, own: On([]string{"east"}, cpu("3"), start.Add(time.Second)), want: taken{1, "3"},
		},
		"what the informer has is not counted beside what was about to be stored": {
			own: On([]string{"east"}, cpu("2"), start), changes: []change{{new: reservedA}}, want: taken{1, "2"},
		},
		"what is withdrawn":       {changes: []change{{new: reservedA}, {old: reservedA, new: stored("a", "12")}}, want: taken{0, "0"}},
		"what is deleted":         {changes: []change{{new: decidedA}, {old: decidedA}}, want: taken{0, "0"}},
		"what has ended":          {changes: []change{{new: reservedA}}, at: For, want: taken{0, "0"}},
		"a decision never ends":   {changes: []change{{new: decidedA}}, at: For, want: taken{1, "0"}},
		"a write makes no longer": {changes: []change{{new: reservedA}, {old: reservedA, new: decidedA, after: For / 2}}, at: For, want: taken{1, "0"}},
		"nor does one after its end": {
			changes: []change{{new: reservedA}, {old: reservedA, new: decidedA, after: 2 * For}}, at: 2 * For, want: taken{1, "0"},
		},
		"of a list it counts from when it was made": {changes: []change{{new: reservedA, after: For / 2, list: true}}, at: For, want: taken{0, "0"}},
		"of a watch from when it was seen: clocks differ": {
			changes: []change{{new: stored("a", "10", reserved(start.Add(-time.Hour), "2", "east"))}}, at: For - 1, want: taken{1, "2"},
		},
		"a clock that is ahead makes it no longer": {
			changes: []change{{new: stored("a", "10", reserved(start.Add(time.Hour), "2", "east")), list: true}}, at: For, want: taken{0, "0"},
		},
		"a unit that moves takes where it goes": {
			changes: []change{{new: stored("a", "10", decided("west"))}, {old: stored("a", "10", decided("west")), new: stored("a", "11", decided("east"), reserved(start, "2", "east"))}},
			want:    taken{1, "2"},
		},
		"the next namespace of a name is another unit": {
			changes: []change{{new: reservedA}, {old: reservedA, new: stored("b", "12")}}, want: taken{0, "0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			l.Assume(unit("a"), test.own, start)
			for _, c := range test.changes {
				l.Observe(c.old, c.new, start.Add(c.after), !c.list)
			}
			got := takenOf(func(s placement.Snapshot) { l.Note(s, unit(test.asked), start.Add(test.at)) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsKnownToBeLaterTakesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		other *placementv1alpha1.Placement
		list  bool
		want  taken
	}{
		"reserved before":                       {stored("b", "9", reserved(start, "2", "east")), false, taken{1, "2"}},
		"reserved later":                        {stored("b", "11", reserved(start, "2", "east")), false, taken{0, "0"}},
		"reserved and decided later":            {stored("b", "11", reserved(start, "2", "east"), decided("east")), false, taken{0, "0"}},
		"of a list, maybe before":               {stored("b", "11", reserved(start, "2", "east")), true, taken{1, "2"}},
		"decided whenever, without":             {stored("b", "11", decided("east")), false, taken{1, "0"}},
		"longer versions are later":             {stored("b", "100", reserved(start, "2", "east")), false, taken{0, "0"}},
		"versions that say nothing are not":     {stored("b", "x", reserved(start, "2", "east")), false, taken{1, "2"}},
		"reserved later, and decided elsewhere": {stored("b", "11", reserved(start, "2", "west"), decided("west")), false, taken{0, "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			l.Observe(nil, stored("a", "10", reserved(start, "1", "east")), start, true)
			l.Observe(nil, test.other, start, !test.list)
			l.Assume(unit("c"), On([]string{"east"}, cpu("5"), start), start) // not stored yet: it looks itself
			got := takenOf(func(s placement.Snapshot) { l.NoteBefore(s, unit("a"), "10", start) })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Physical clusters and namespaces come and go while a server runs.
func TestNothingIsRememberedOfPlacementsThatAreGone(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	on := func(n int, name string) *placementv1alpha1.Placement {
		at := map[string]time.Time{"east": start, "west": start.Add(time.Second)}[name]
		return stored(fmt.Sprint(n), fmt.Sprint(n+1), decided(name), reserved(at, "1", name))
	}
	for n := range 10 {
		l.Observe(nil, on(n, "east"), start, true)
		l.Observe(on(n, "east"), on(n, "west"), start, true)
	}
	if l.totals["west"].units != 10 || len(l.totals) != 1 || len(l.counted) != 10 || len(l.stored) != 10 {
		t.Errorf("%v of %d units, %d reservations", l.totals, len(l.counted), len(l.stored))
	}
	for n := range 10 {
		l.Observe(on(n, "west"), nil, start, true)
	}
	if len(l.totals)+len(l.counted)+len(l.stored) != 0 {
		t.Errorf("%v, %d units and %d reservations are remembered", l.totals, len(l.counted), len(l.stored))
	}
	l.expire(start.Add(For))
	if len(l.ends)+len(l.order) != 0 {
		t.Errorf("%d ends of reservations are remembered, and %d versions", len(l.ends), len(l.order))
	}
}

func TestAReservationIsForWhereAUnitComes(t *testing.T) {
	t.Parallel()
	u := placement.Unit{Decided: []string{"east"}, Needs: placement.Needs{Requests: cpu("2")}}
	got := New(u, placement.Decision{PhysicalClusters: []string{"east", "west"}, Requests: cpu("1")}, start.Add(1234*time.Nanosecond))
	want := &placementv1alpha1.Reservation{At: metav1.NewMicroTime(start.Add(time.Microsecond)), PhysicalClusters: []string{"west"}, Requests: cpu("1")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, stays := range []placement.Decision{{}, {PhysicalClusters: []string{"east"}}} {
		if r := New(u, stays, start); r != nil {
			t.Errorf("%v reserves %v", stays.PhysicalClusters, r)
		}
	}
}
