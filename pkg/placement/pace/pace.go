package pace

import (
	"fmt"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// SlotTime is how long a move that does not come on counts: what never becomes available where
// it goes, or is never removed where it was as that is lost, keeps nobody else from moving.
const SlotTime = 5 * time.Minute

// Bounds are how many units move at a time: in all, to or from one physical cluster, and of
// one logical cluster.
type Bounds struct{ Most, Each, Tenant int }

// Move is a unit that moves, or asks whether it may begin.
type Move struct {
	Cluster  logicalcluster.Name
	Cause    placementv1alpha1.TransitionCause
	From, To []string
	// Stuck says that it does not come on.
	Stuck bool
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

// Stuck says that a transition does not come on.
func Stuck(t *placementv1alpha1.Transition, now time.Time) bool {
	return t.Phase == placementv1alpha1.TransitionStarting && now.Sub(t.Started.Time) > SlotTime ||
		stamp.PhaseRemoves(t.Phase) && now.Sub(t.Since.Time) > SlotTime
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

// Load counts moves.
type Load struct {
	bounds  Bounds
	all     map[class]int
	each    map[class]map[string]int
	tenants map[logicalcluster.Name]int
	comes   map[string]bool
	budgets map[string]int
}

// NewLoad is a count of nothing.
func NewLoad(b Bounds) *Load {
	return &Load{bounds: b, all: map[class]int{}, each: map[class]map[string]int{}, tenants: map[logicalcluster.Name]int{}, comes: map[string]bool{}, budgets: map[string]int{}}
}

// Add counts a move.
func (l *Load) Add(m Move) {
	for _, b := range m.Budgets {
		l.budgets[b.Key]++
	}
	if m.Stuck {
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

// Full says what keeps a move from beginning; empty: nothing. What is not known of it yet, as
// where it goes, bounds nothing.
//
//	the move                    waits while there are, of those that come on
//	Drain, at a rate            as many of the same drain
//	Drain, else                 Most of such; Each to or from one of its physical clusters
//	Return                      any that go where it goes; and as below
//	any other                   Most of them; Tenant of its logical cluster; Each to or from one of
//	                            its physical clusters
//	has budgets, too            as many of the budget, also of those that do not come on
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
		if l.all[c] >= m.Rate {
			return full
		}
		return ""
	}
	at := func(name string) bool { return l.each[c][name] >= l.bounds.Each }
	switch {
	case m.Cause == placementv1alpha1.CauseReturn && slices.ContainsFunc(m.To, func(name string) bool { return l.comes[name] }):
		return "units return one by one to a physical cluster, and another one is on its way"
	case l.all[c] >= l.bounds.Most, slices.ContainsFunc(m.To, at), slices.ContainsFunc(m.From, at):
		return full
	case !c.drain && l.tenants[m.Cluster] >= l.bounds.Tenant:
		return "as many units of the logical cluster move as may move at a time"
	}
	return ""
}

// full does not say how many: others are none of a tenant's business.
const full = "as many units move as may move at a time"
