package pace

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	pin    = placementv1alpha1.CausePinned
	drain  = placementv1alpha1.CauseDrain
	policy = placementv1alpha1.CausePolicy
	back   = placementv1alpha1.CauseReturn
	lost   = placementv1alpha1.CauseLost
)

func move(cluster string, cause placementv1alpha1.TransitionCause, from, to string) Move {
	return Move{Cluster: logicalcluster.Name(cluster), Cause: cause, From: []string{from}, To: []string{to}}
}

func (m Move) late() Move { m.NotArrived = true; return m }

func (m Move) left() Move { m.NotGone = true; return m }

func (m Move) at(rate int) Move { m.Drained, m.Rate = m.From[0], rate; return m }

func (m Move) within(policy string, most int) Move {
	m.Budgets = append(slices.Clone(m.Budgets), Budget{policy, policy, most})
	return m
}

func TestMovesAreCountedSoThatNobodyKeepsOthersFromMoving(t *testing.T) {
	const gold = "policy gold"
	of := func(m Move, n int) []Move { return slices.Repeat([]Move{m}, n) }
	for name, c := range map[string]struct {
		others []Move
		asks   Move
		full   string
	}{
		"room":                           {of(move("a", pin, "a", "b"), 1), move("shop", pin, "c", "d"), ""},
		"too many in all":                {[]Move{move("a", pin, "a", "b"), move("a", pin, "c", "d"), move("a", pin, "e", "f")}, move("shop", pin, "g", "h"), full},
		"too many leave one":             {[]Move{move("a", pin, "a", "b"), move("a", pin, "a", "c")}, move("shop", pin, "a", "d"), full},
		"too many come to one":           {[]Move{move("a", pin, "a", "b"), move("a", pin, "c", "b")}, move("shop", pin, "d", "b"), full},
		"where it goes is not known yet": {[]Move{move("a", pin, "a", "b"), move("a", pin, "c", "b")}, Move{Cluster: "shop", Cause: pin, From: []string{"d"}}, ""},
		"what is not removed runs once":  {of(move("a", pin, "a", "b").left(), 9), move("a", pin, "a", "b"), ""},
		"what is lost runs once":         {of(move("a", lost, "a", "b").late(), 9), move("a", pin, "a", "b"), ""},
		"what does not arrive takes half of where it goes from others": {append(of(move("a", pin, "a", "b").late(), 9), move("a", pin, "a", "b")), move("shop", pin, "a", "b"), full},
		"and no more":                          {of(move("a", pin, "a", "b").late(), 9), move("shop", pin, "a", "b"), ""},
		"and nothing where it was":             {append(of(move("a", pin, "a", "b").late(), 9), move("a", pin, "a", "c")), move("shop", pin, "a", "d"), ""},
		"it keeps its own logical cluster":     {of(move("shop", pin, "a", "b").late(), 1), move("shop", policy, "c", "d"), "as many units of the logical cluster move as may move at a time"},
		"but not from leaving what is lost":    {of(move("shop", pin, "a", "b").late(), 9), move("shop", lost, "a", "b"), ""},
		"nor from what a drain wants":          {of(move("shop", pin, "a", "b").late(), 9), move("shop", drain, "a", "b"), ""},
		"a drain that does not arrive stops":   {of(move("shop", drain, "a", "b").late(), 2), move("shop", drain, "c", "b"), full},
		"and does not hold another one up":     {of(move("shop", drain, "a", "b").late(), 9), move("shop", drain, "c", "d"), ""},
		"one logical cluster takes half of it": {of(move("a", drain, "a", "b").late(), 9), move("shop", drain, "a", "b"), ""},
		"two stop it":                          {append(of(move("a", drain, "a", "b").late(), 1), move("b", drain, "a", "b").late()), move("shop", drain, "a", "b"), full},
		"a rate counts what does not arrive":   {of(move("shop", drain, "a", "b").at(4).late(), 4), move("shop", drain, "a", "d").at(4), full},
		"of one logical cluster half of it":    {of(move("a", drain, "a", "b").at(4).late(), 4), move("shop", drain, "a", "b").at(4), ""},
		"of several all of it":                 {append(of(move("a", drain, "a", "b").at(4).late(), 2), of(move("b", drain, "a", "b").at(4).late(), 2)...), move("shop", drain, "a", "b").at(4), full},
		"a rate of one is one":                 {of(move("a", drain, "a", "b").at(1).late(), 1), move("shop", drain, "a", "b").at(1), full},
		"what returns waits for what comes on": {of(move("a", back, "a", "b").late(), 1), move("shop", back, "a", "b"), ""},
		"tenants do not hold a drain up":       {of(move("a", pin, "a", "b"), 3), move("shop", drain, "a", "b"), ""},
		"a drain does not hold tenants up":     {of(move("a", drain, "a", "b"), 3), move("shop", pin, "a", "b"), ""},
		"a tenant has its share":               {of(move("shop", pin, "a", "b"), 1), move("shop", pin, "c", "d"), "as many units of the logical cluster move as may move at a time"},
		"of a drain it has none":               {of(move("shop", drain, "a", "b"), 1), move("shop", drain, "c", "d"), ""},
		"one is on its way there":              {of(move("a", drain, "a", "b"), 1), move("shop", back, "c", "b"), "units return one by one to a physical cluster, and another one is on its way"},
		"none is on its way there":             {of(move("a", drain, "a", "b"), 1), move("shop", back, "c", "d"), ""},

		"a drain of which an admin says how many": {of(move("a", drain, "a", "b"), 9), move("shop", drain, "a", "b").at(4), ""},
		"and they are":                                          {of(move("a", drain, "a", "b").at(4), 4), move("shop", drain, "a", "b").at(4), full},
		"it does not hold another one up":                       {of(move("a", drain, "a", "b").at(4), 4), move("shop", drain, "c", "b"), ""},
		"a policy lets one move":                                {of(move("a", policy, "a", "b").within(gold, 1), 1), move("shop", policy, "c", "d").within(gold, 1), "policy gold lets 1 of the units that it selects move at a time"},
		"also if that is stuck: a policy may be wrong":          {of(move("a", policy, "a", "b").within(gold, 1).late(), 1), move("shop", policy, "c", "d").within(gold, 1), "policy gold lets 1 of the units that it selects move at a time"},
		"another policy lets others":                            {of(move("a", policy, "a", "b").within(gold, 1), 1), move("shop", policy, "c", "d").within("policy iron", 1), ""},
		"what is not by a policy does not count for its budget": {of(move("a", pin, "a", "b"), 1), move("shop", policy, "c", "d").within(gold, 1), ""},
		"of two policies the tighter one counts":                {of(move("a", policy, "a", "b").within(gold, 9).within("policy iron", 1), 1), move("shop", policy, "c", "d").within(gold, 9).within("policy iron", 1), "policy iron lets 1 of the units that it selects move at a time"},
	} {
		l := NewLoad(Bounds{Most: 3, Each: 2, Tenant: 1})
		for _, m := range c.others {
			l.Add(m)
		}
		if diff := cmp.Diff(c.full, l.Full(c.asks)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatDoesNotComeOnIsLateAfterItsSlot(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(phase placementv1alpha1.TransitionPhase, started, since time.Duration) *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{Phase: phase, Started: metav1.NewTime(now.Add(-started)), Since: metav1.NewTime(now.Add(-since))}
	}
	for name, c := range map[string]struct {
		t             *placementv1alpha1.Transition
		arrives, goes bool
	}{
		"it has just begun":           {at(placementv1alpha1.TransitionStarting, time.Minute, time.Minute), true, true},
		"it never becomes available":  {at(placementv1alpha1.TransitionStarting, time.Hour, 0), false, true},
		"it drains for long":          {at(placementv1alpha1.TransitionDraining, time.Hour, time.Hour), true, true},
		"it is being removed":         {at(placementv1alpha1.TransitionRemoving, time.Hour, 0), true, true},
		"it waits for a lost cluster": {at(placementv1alpha1.TransitionRemoving, time.Hour, time.Hour), true, false},
	} {
		if NotArrived(c.t, now) == c.arrives || NotGone(c.t, now) == c.goes {
			t.Errorf("%s: arrives %v, goes %v", name, !NotArrived(c.t, now), !NotGone(c.t, now))
		}
	}
}

// waiting is one for each name, in this order, which a drain of east moves to west.
func waiting(names ...string) []Waiting {
	var out []Waiting
	for i, name := range names {
		out = append(out, Waiting{Unit: Unit{Cluster: "shop", Namespace: name}, Move: move("shop", drain, "east", "west"), Since: time.Unix(int64(i), 0)})
	}
	return out
}

func queueOf(waiting []Waiting) *Queue {
	q := &Queue{}
	for _, w := range waiting {
		q.Put(w)
	}
	return q
}

func namespaces(list []Unit) (out []string) {
	for _, u := range list {
		out = append(out, u.Namespace)
	}
	return out
}

func TestWhoWaitsForLongestIsNext(t *testing.T) {
	queue := waiting("c", "a", "d", "b")
	queue[3].Since = queue[2].Since // then by name
	slices.Reverse(queue)
	l := NewLoad(Bounds{Most: 9, Each: 3, Tenant: 1})
	if diff := cmp.Diff([]string{"c", "a", "b"}, namespaces(l.Next(queueOf(queue)))); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

func TestWhoIsKeptLetsOthersPass(t *testing.T) {
	queue := waiting("a", "b", "c")
	queue[2].Move = move("shop", drain, "north", "south")
	l := NewLoad(Bounds{Most: 9, Each: 1, Tenant: 1})
	l.Add(move("bank", drain, "east", "west"))
	if diff := cmp.Diff([]string{"c"}, namespaces(l.Next(queueOf(queue)))); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

func TestHowManyAreAheadIsSaidInSteps(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 2: 3, 3: 3, 4: 10, 10: 10, 11: 30, 31: 100, 301: 1000} {
		var names []string
		for i := range n + 1 {
			names = append(names, fmt.Sprint(i))
		}
		queue := waiting(names...)
		queue = append(queue, Waiting{Unit: Unit{Cluster: "bank"}}) // of whom nobody else hears
		if got := queueOf(queue).Ahead(queue[n].Unit); got != want {
			t.Errorf("behind %d: %d, want %d", n, got, want)
		}
	}
}

// Whatever waits and moves: nobody begins for whom there is no room, and who is first in the
// queue and has room begins.
func TestNoBoundIsExceededAndTheFirstBegins(t *testing.T) {
	causes := []placementv1alpha1.TransitionCause{pin, drain, policy, back}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Move {
			m := move(rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, name), rapid.SampledFrom(causes).Draw(t, "cause"),
				rapid.SampledFrom([]string{"a", "b"}).Draw(t, "from"), rapid.SampledFrom([]string{"c", "d"}).Draw(t, "to"))
			m.NotArrived, m.NotGone = rapid.Bool().Draw(t, "late"), rapid.Bool().Draw(t, "left")
			if m.Cause == policy {
				m = m.within("gold", 2)
			}
			return m
		}
		b := Bounds{Most: rapid.IntRange(1, 4).Draw(t, "most"), Each: rapid.IntRange(1, 3).Draw(t, "each"), Tenant: rapid.IntRange(1, 2).Draw(t, "tenant")}
		l, budget := NewLoad(b), 0
		for range rapid.IntRange(0, 8).Draw(t, "moving") {
			m := draw("moves")
			if l.Full(m) == "" {
				l.Add(m)
				budget += len(m.Budgets)
			}
		}
		var queue []Waiting
		for i := range rapid.IntRange(1, 8).Draw(t, "waiting") {
			m := draw("waits")
			m.NotArrived, m.NotGone = false, false
			queue = append(queue, Waiting{Unit: Unit{Cluster: m.Cluster, Namespace: fmt.Sprint(i)}, Move: m, Since: time.Unix(int64(i), 0)})
		}
		first := l.Full(queue[0].Move) == ""
		next := l.Next(queueOf(queue))
		if first != slices.Contains(next, queue[0].Unit) {
			t.Fatalf("the first has room: %v; next are %v", first, next)
		}
		for c, n := range l.all {
			if n > b.Most {
				t.Fatalf("%d of %+v, of %d", n, c, b.Most)
			}
			for name, n := range l.each[c] {
				if n > b.Each {
					t.Fatalf("%d to or from %s, of %d", n, name, b.Each)
				}
			}
		}
		for name, n := range l.tenants {
			if n > b.Tenant {
				t.Fatalf("%d of %s, of %d", n, name, b.Tenant)
			}
		}
		if l.budgets["gold"] > 2 {
			t.Fatalf("%d by one policy", l.budgets["gold"])
		}
	})
}

// A drain that nothing arrives by, whoever is on it: each five minutes all that moves is late, and
// what may begins. It comes to an end, with as many as its bound beside those of one logical
// cluster, which may take half of it from others.
func TestADrainByWhichNothingArrivesStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const units = 400
		tenants, rate := rapid.IntRange(1, units).Draw(t, "logical clusters"), rapid.IntRange(0, 12).Draw(t, "rate")
		each := rapid.IntRange(1, 10).Draw(t, "each")
		most := each
		if rate > 0 {
			most = rate
		}
		b := Bounds{Most: 20, Each: each, Tenant: 5}
		var moving, waiting []Move
		for i := range units {
			m := move(fmt.Sprint(i%tenants), drain, "east", "west")
			if rate > 0 {
				m = m.at(rate)
			}
			waiting = append(waiting, m)
		}
		for range units {
			l := NewLoad(b)
			for _, m := range moving {
				l.Add(m.late())
			}
			var rest []Move
			for _, m := range waiting {
				if l.Full(m) == "" {
					l.Add(m)
					moving = append(moving, m)
				} else {
					rest = append(rest, m)
				}
			}
			if len(rest) == len(waiting) {
				break
			}
			waiting = rest
		}
		// One logical cluster may be over its half, and then each other one counts that half only.
		if bound := 2 * most; len(moving) > bound || len(moving) < min(most, units) {
			t.Fatalf("%d of %d run twice, of %d at a time", len(moving), units, most)
		}
	})
}

// Whatever of others does not arrive, the first move of a logical cluster by no drain begins.
func TestWhatDoesNotArriveKeepsNobodyElseFromMoving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLoad(Bounds{Most: rapid.IntRange(1, 20).Draw(t, "most"), Each: rapid.IntRange(1, 10).Draw(t, "each"), Tenant: rapid.IntRange(1, 5).Draw(t, "tenant")})
		for range rapid.IntRange(0, 60).Draw(t, "moves") {
			l.Add(move(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "of"), rapid.SampledFrom([]placementv1alpha1.TransitionCause{pin, drain, policy, back, lost}).Draw(t, "cause"), "east", "west").late())
		}
		for _, cause := range []placementv1alpha1.TransitionCause{pin, policy, back, lost} {
			if why := l.Full(move("shop", cause, "east", "west")); why != "" {
				t.Fatalf("%s waits: %s", cause, why)
			}
		}
	})
}

// Whatever is put in and taken out, a queue is in order, and says how many are ahead as one does that counts them.
func TestAQueueIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, naive := &Queue{}, map[Unit]Waiting{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w := Waiting{
				Unit:  Unit{Cluster: logicalcluster.Name(rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "cluster")), Namespace: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "unit"))},
				Since: time.Unix(int64(rapid.IntRange(0, 5).Draw(t, "since")), 0),
			}
			if rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
				_, in := naive[w.Unit]
				if q.Remove(w.Unit) != in {
					t.Fatalf("%v was in the queue: %v", w.Unit, in)
				}
				delete(naive, w.Unit)
			} else {
				q.Put(w)
				naive[w.Unit] = w
			}
			want := slices.SortedFunc(maps.Values(naive), func(a, b Waiting) int { return before(&a, &b) })
			var got []Waiting
			for _, w := range q.order {
				got = append(got, *w)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			ahead := map[logicalcluster.Name]int{}
			for _, w := range want {
				n := ahead[w.Unit.Cluster]
				if got := q.Ahead(w.Unit); !q.Has(w.Unit) || (got == 0) != (n == 0) || got < n || n > 1 && got >= 4*n {
					t.Fatalf("behind %d: %d", n, got)
				}
				ahead[w.Unit.Cluster]++
			}
			for cluster := range q.tenants {
				if ahead[cluster] == 0 {
					t.Fatalf("%s has nobody in the queue, and a line", cluster)
				}
			}
		}
	})
}
