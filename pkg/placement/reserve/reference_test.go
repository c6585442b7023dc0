package reserve

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// naive counts anew, each time, what a Ledger sums up as it comes and goes.
type naive struct {
	placements  map[Unit]*placementv1alpha1.Placement
	unowned     map[*placementv1alpha1.Placement]bool
	stored, own map[Unit]entry
}

func newNaive() *naive {
	return &naive{map[Unit]*placementv1alpha1.Placement{}, map[*placementv1alpha1.Placement]bool{}, map[Unit]entry{}, map[Unit]entry{}}
}

func (n *naive) observe(old, new *placementv1alpha1.Placement, now time.Time, live bool) {
	if old != nil {
		delete(n.placements, unitOf(old))
		delete(n.unowned, old)
		if new == nil || unitOf(new) != unitOf(old) || new.Spec.Reservation == nil {
			delete(n.stored, unitOf(old))
		}
	}
	if new == nil {
		return
	}
	u := unitOf(new)
	if u == (Unit{}) {
		n.unowned[new] = true
		return
	}
	n.placements[u] = new
	r := new.Spec.Reservation
	if r == nil || old != nil && unitOf(old) == u && old.Spec.Reservation != nil && old.Spec.Reservation.At.Equal(&r.At) {
		return
	}
	if own, ok := n.own[u]; ok && !r.At.Time.Before(own.at) {
		delete(n.own, u)
	}
	e := entryOf(r, now)
	if live {
		e.version = new.ResourceVersion
	} else if r.At.Time.Before(now) {
		e.expires = r.At.Add(For)
	}
	n.stored[u] = e
}

// count counts on one physical cluster. Of what is stored it leaves out what skip says, the decisions where that
// has reserved, too.
func (n *naive) count(name string, own map[Unit]entry, asked Unit, now time.Time, skip func(entry) bool) (units int, letIn, assumed corev1.ResourceList) {
	left := map[Unit]bool{}
	ended := func(_ Unit, e entry) bool { return !now.Before(e.expires) }
	entries, own := maps.Clone(n.stored), maps.Clone(own)
	maps.DeleteFunc(entries, ended)
	maps.DeleteFunc(own, ended)
	maps.Copy(entries, own)
	for u, e := range entries {
		if u == asked || !slices.Contains(e.physicalClusters, name) {
			continue
		}
		if skip(e) {
			left[u] = true
			continue
		}
		assumed = placement.Sum(assumed, e.requests)
		if _, decided := countedOn(n.placements[u])[name]; !decided {
			units, letIn = units+1, placement.Sum(letIn, e.requests)
		}
	}
	add := func(u Unit, p *placementv1alpha1.Placement) {
		if requests, ok := countedOn(p)[name]; ok && !left[u] {
			units, letIn = units+1, placement.Sum(letIn, requests)
		}
	}
	for u, p := range n.placements {
		add(u, p)
	}
	for p := range n.unowned {
		add(Unit{}, p)
	}
	return units, letIn, assumed
}

// counts is what is counted of a physical cluster, as text.
func counts(units int, letIn, assumed corev1.ResourceList) string {
	in, more := letIn[corev1.ResourceCPU], assumed[corev1.ResourceCPU]
	return fmt.Sprintf("%d units, %s let in, %s assumed", units, in.String(), more.String())
}

func TestSumsAreWhatCountingAnewComesTo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			compareWithNaive(t, seed)
		})
	}
}

// compareWithNaive has a Ledger and its reference see the same, in steps that the seed picks.
func compareWithNaive(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a seed repeats it
	l, n, now := NewLedger(), newNaive(), start
	objects, names := map[string]*placementv1alpha1.Placement{}, []string{"east", "west", "north"}
	some := func() (out []string) {
		for _, name := range names {
			if r.IntN(2) == 0 {
				out = append(out, name)
			}
		}
		return out
	}
	for step := range 120 {
		now = now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
		name, version := strconv.Itoa(r.IntN(6)), strconv.Itoa(step+1)
		switch r.IntN(6) {
		case 0:
			reservation := On(some(), cpu(strconv.Itoa(1+r.IntN(4))), now)
			l.Assume(unit(name), reservation, now)
			if reservation != nil {
				n.own[unit(name)] = entryOf(reservation, now)
			}
		case 1:
			l.Forget(unit(name))
			delete(n.own, unit(name))
		default:
			next := change(r, objects[name], name, version, some, now)
			live := r.IntN(5) > 0
			l.Observe(objects[name], next, now, live)
			n.observe(objects[name], next, now, live)
			objects[name] = next
		}
		asked, before := unit(strconv.Itoa(r.IntN(6))), strconv.Itoa(r.IntN(step+2))
		for _, name := range names {
			s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{
				{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}},
			}}
			c := &s.PhysicalClusters[0]
			l.Note(s, asked, now)
			want := counts(n.count(name, n.own, asked, now, func(entry) bool { return false }))
			if diff := cmp.Diff(want, counts(c.Placements, c.LetIn, c.Assumed)); diff != "" {
				t.Fatalf("step %d, %s: %s", step, name, diff)
			}
			l.NoteBefore(s, asked, before, now)
			want = counts(n.count(name, nil, asked, now, func(e entry) bool {
				order, known := compare(e.version, before)
				return known && order > 0
			}))
			if diff := cmp.Diff(want, counts(c.Placements, c.LetIn, c.Assumed)); diff != "" {
				t.Fatalf("step %d, %s before %s: %s", step, name, before, diff)
			}
		}
	}
}

// change is the next version of a Placement, or none.
func change(r *rand.Rand, old *placementv1alpha1.Placement, name, version string, some func() []string, now time.Time) *placementv1alpha1.Placement {
	if old != nil && r.IntN(6) == 0 {
		return nil
	}
	next := stored(name, version)
	if old != nil && r.IntN(3) > 0 {
		next.Spec = *old.Spec.DeepCopy()
	}
	if r.IntN(8) == 0 {
		next.OwnerReferences = nil
	}
	if on := some(); r.IntN(2) == 0 && len(on) > 0 {
		next.Spec.Decision = placement.Decision{PhysicalClusters: on, Requests: cpu(strconv.Itoa(1 + r.IntN(4)))}.API()
	}
	if r.IntN(3) == 0 {
		next.Spec.Reservation = On(some(), cpu(strconv.Itoa(1+r.IntN(4))), now)
	}
	if r.IntN(4) == 0 {
		next.Status.Requests = cpu(strconv.Itoa(r.IntN(4)))
	}
	return next
}
