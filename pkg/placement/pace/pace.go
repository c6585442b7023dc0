package pace

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// SlotTime is how long a move that does not come on counts in full: what never becomes
// available where it goes, or is never removed where it was as that is lost, is not to keep
// all others from moving.
const SlotTime = 5 * time.Minute

// Bounds are how many units move at a time: in all, to or from one physical cluster, and of
// one logical cluster.
type Bounds struct{ Most, Each, Tenant int }

// Move is a unit that moves, or asks whether it may begin.
type Move struct {
	Cluster  logicalcluster.Name
	Cause    placementv1alpha1.TransitionCause
	From, To []string
	// NotArrived says that it does not become available where it goes, and runs in both places
	// meanwhile; NotGone that it is not removed where it was.
	NotArrived, NotGone bool
	// Drained is the physical cluster whose drain it is of, if an admin says how many leave
	// that at a time, Rate.
	Drained string
	Rate    int
	// Budgets are those of the policies by which it moves.
	Budgets []Budget
}

// Budget is how many of the units that a policy selects move at a time.
type Budget struct {
	// Policy names the policy for people, Key apart from those of other logical clusters.
	Policy, Key string
	Most        int
}

// NotArrived says that a transition does not come on: nothing is available where it goes.
func NotArrived(t *placementv1alpha1.Transition, now time.Time) bool {
	return t.Phase == placementv1alpha1.TransitionStarting && now.Sub(t.Started.Time) > SlotTime
}

// NotGone says that a transition does not come on: something is not removed where it was.
func NotGone(t *placementv1alpha1.Transition, now time.Time) bool {
	return stamp.PhaseRemoves(t.Phase) && now.Sub(t.Since.Time) > SlotTime
}

// class is what counts together: drains with a rate by their physical cluster, other drains,
// and all else.
type class struct {
	drain   bool
	drained string
}

func (m Move) class() class {
	return class{drain: m.Cause == placementv1alpha1.CauseDrain, drained: m.Drained}
}

// place is a physical cluster to or from which moves of a class go; all of them without a name.
type place struct {
	class
	name string
}

// late counts the moves that do not arrive by whose they are.
type late map[logicalcluster.Name]int

// against is how many of them count against one more of a logical cluster: its own, and of
// each other one at most each, of all others at most all.
func (l late) against(cluster logicalcluster.Name, each, all int) int {
	others := 0
	for name, n := range l {
		if name != cluster {
			others += min(n, each)
		}
	}
	return l[cluster] + min(others, all)
}

// Load counts moves.
type Load struct {
	bounds  Bounds
	all     map[class]int
	each    map[class]map[string]int
	tenants map[logicalcluster.Name]int
	comes   map[string]bool
	budgets map[string]int
	// late are those that do not arrive.
	late map[place]late
}

// NewLoad is a count of nothing.
func NewLoad(b Bounds) *Load {
	return &Load{bounds: b, all: map[class]int{}, each: map[class]map[string]int{}, tenants: map[logicalcluster.Name]int{}, comes: map[string]bool{}, budgets: map[string]int{}, late: map[place]late{}}
}

// Add counts a move.
//
//	the move                       counts
//	comes on                       for all that Full bounds
//	does not arrive, a drain       for the rate of the drain, and where it goes and where it was,
//	                               as far as notArrived says; not for Most
//	does not arrive, lost          for nothing: it does not run where it was
//	does not arrive, any other     for its logical cluster, and where it goes, as far as
//	                               notArrived says; not for Most, nor where it was
//	is not removed where it was    for nothing: it runs once
//	has budgets                    for these, in any case
func (l *Load) Add(m Move) {
	for _, b := range m.Budgets {
		l.budgets[b.Key]++
	}
	switch {
	case m.NotGone, m.NotArrived && m.Cause == placementv1alpha1.CauseLost:
		return
	case m.NotArrived:
		l.addLate(m)
		return
	}
	for _, name := range m.To {
		l.comes[name] = true
	}
	c := m.class()
	l.all[c]++
	if !c.drain {
		l.tenants[m.Cluster]++
	}
	if l.each[c] == nil {
		l.each[c] = map[string]int{}
	}
	for _, name := range slices.Concat(m.To, m.From) {
		l.each[c][name]++
	}
}

func (l *Load) addLate(m Move) {
	names := append([]string{""}, m.To...)
	if m.class().drain {
		names = append(names, m.From...)
	}
	for _, name := range names {
		at := place{m.class(), name}
		if l.late[at] == nil {
			l.late[at] = late{}
		}
		l.late[at][m.Cluster]++
	}
}

// notArrived is how many of the moves that do not arrive count against a move for a bound. They
// take room twice: that many are not to become more every five minutes, until all do. And who has
// applications that never arrive, by chance or on purpose, is not to keep others from moving.
//
//	the move   its own logical cluster   another one            all others together
//	a drain    all                       half of the bound, or  all: a drain that is wrong for many stops,
//	                                     one                    and its admin sees why
//	lost       none: it runs nowhere     none                   none
//	any other  all                       all                    half of the bound
func (l *Load) notArrived(m Move, name string, bound int) int {
	switch late := l.late[place{m.class(), name}]; {
	case m.Cause == placementv1alpha1.CauseLost:
		return 0
	case m.class().drain:
		return late.against(m.Cluster, (bound+1)/2, math.MaxInt)
	default:
		return late.against(m.Cluster, math.MaxInt, bound/2)
	}
}

// Full says what keeps a move from beginning; empty: nothing. What is not known of it yet, as
// where it goes, bounds nothing.
//
//	the move                    waits while there are, of those that count, see Add
//	Drain, at a rate            as many of the same drain
//	Drain, else                 Most of such; Each to or from one of its physical clusters
//	Return                      any that go where it goes; and as below
//	any other                   Most of them; Tenant of its logical cluster; Each to or from one of
//	                            its physical clusters
//	has budgets, too            as many of the budget
//
// A unit returns to a physical cluster to which none is on its way: what that reports as free is
// to be what is left by those before, and one that says that there is room where there is none
// keeps one unit waiting.
func (l *Load) Full(m Move) string {
	for _, b := range m.Budgets {
		if l.budgets[b.Key] >= b.Most {
			return fmt.Sprintf("%s lets %d of the units that it selects move at a time", b.Policy, b.Most)
		}
	}
	c := m.class()
	if c.drained != "" {
		if l.all[c]+l.notArrived(m, "", m.Rate) >= m.Rate {
			return full
		}
		return ""
	}
	at := func(name string) bool {
		return l.each[c][name]+l.notArrived(m, name, l.bounds.Each) >= l.bounds.Each
	}
	switch {
	case m.Cause == placementv1alpha1.CauseReturn && slices.ContainsFunc(m.To, func(name string) bool { return l.comes[name] }):
		return "units return one by one to a physical cluster, and another one is on its way"
	case l.all[c] >= l.bounds.Most, slices.ContainsFunc(m.To, at), slices.ContainsFunc(m.From, at):
		return full
	case !c.drain && l.tenants[m.Cluster]+l.own(m) >= l.bounds.Tenant:
		return "as many units of the logical cluster move as may move at a time"
	}
	return ""
}

// own is how many moves of the logical cluster of a move do not arrive.
func (l *Load) own(m Move) int {
	if m.Cause == placementv1alpha1.CauseLost {
		return 0
	}
	return l.late[place{class: m.class()}][m.Cluster]
}

// full does not say how many: others are none of a tenant's business.
const full = "as many units move as may move at a time"
