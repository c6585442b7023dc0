package placement

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// DefaultReturn is how many seconds what is preferred must have been ready, if no policy
	// says.
	DefaultReturn    = 300
	minReturnSeconds = 10
	maxReturnSeconds = 24 * 60 * 60
	// returnMemory is how long after a return the next one has to wait longer.
	returnMemory = 24 * time.Hour
	// shortestLook and longestLook bound Look.
	shortestLook = 10 * time.Second
	longestLook  = time.Minute
)

// Preference is where preferences want a unit.
type Preference struct {
	// Better says that they want it more where Decision has it than where it is.
	Better   bool
	Decision Decision
	// Settled says that nothing but another policy, pin or label changes that: no time, room
	// or readiness does.
	Settled bool
}

// Preferred says whether preferences want a unit elsewhere than where it is. What is
// preferred alike counts for nothing: what the unit has stays, then what it waits for.
//
//	policies let it  it has a pin or another  is permitted     what may receive it  Better
//	return, and move scheduler                where it is      is preferred to it
//	no               any                      any              any                  no
//	yes              yes                      any              any                  no
//	yes              no                       no               any                  no: it leaves for that
//	yes              no                       yes              no                   no
//	yes              no                       yes              yes                  yes
//
// Of two sets the one is preferred in which the first that differs is, the best of each
// first. So each return is to something better, and none leads back.
func Preferred(s Snapshot, u Unit) Preference {
	u.Returning = true
	r := compile(s, u)
	if !mayReturn(r.move) || u.Pin != "" || r.foreign() || len(u.Decided) == 0 {
		return Preference{Settled: true}
	}
	has := slices.DeleteFunc(slices.Clone(s.PhysicalClusters), func(c PhysicalCluster) bool { return !slices.Contains(u.Decided, c.Name) })
	if !slices.Equal(r.decide(has).PhysicalClusters, sorted(slices.Clone(u.Decided))) {
		return Preference{}
	}
	d := r.decide(s.PhysicalClusters)
	is, would := r.preferences(s.PhysicalClusters, u.Decided), r.preferences(s.PhysicalClusters, d.PhysicalClusters)
	if !precedes(would, is) {
		return Preference{Settled: is[len(is)-1] == 0}
	}
	return Preference{Better: true, Decision: d}
}

func mayReturn(m placementv1alpha1.MoveRules) bool {
	return m.Return == placementv1alpha1.ReturnWhenPreferred && m.Mode != placementv1alpha1.MoveNever
}

// MayReturn says that a policy lets what it is for return: if none does, nobody has to ask.
func MayReturn(policies []Policy) bool {
	return slices.ContainsFunc(policies, func(p Policy) bool { return p.Rules != nil && p.Rules.Move != nil && mayReturn(*p.Rules.Move) })
}

// preferences are the places of physical clusters in the preferences, the best first.
func (r *rules) preferences(from []PhysicalCluster, names []string) []int {
	var out []int
	for _, c := range from {
		if slices.Contains(names, c.Name) {
			out = append(out, r.candidate(c, false).preference)
		}
	}
	slices.Sort(out)
	return out
}

// precedes says that the first number that differs is less in a.
func precedes(a, b []int) bool {
	n := min(len(a), len(b))
	return slices.Compare(a[:n], b[:n]) < 0
}

// stays ranks what is preferred alike: first what the unit has and is to keep, last what it
// neither has nor waits for.
func (u Unit) stays(name string) (rank int) {
	if slices.Contains(u.Decided, name) {
		rank += 2
	}
	if slices.Contains(u.Awaited, name) {
		rank++
	}
	return rank
}

// Waiting is what is known of a unit that may return.
type Waiting struct {
	// Preferred are what Preferred says now, Awaited what was stored when it was asked before.
	Preferred []string
	Awaited   *placementv1alpha1.Awaited
	// Ready is since when all of them are ready without a break, see ReadySince.
	Ready time.Time
	// Returned is how it returned so far.
	Returned *placementv1alpha1.Returned
	Move     placementv1alpha1.MoveRules
	// Watched is since when this server watches: what was before counts for nothing.
	Watched, Now time.Time
}

// Return says when a unit returns.
type Return struct {
	// Awaited is to be stored; nil: the unit waits for nothing.
	Awaited *placementv1alpha1.Awaited
	// At is when it returns if nothing changes until then, Now that this has come.
	At  time.Time
	Now bool
}

// When says when a unit returns.
//
//	Preferred  Awaited        since then, ready and watched  then
//	none       any            any                            waits for nothing
//	some       none, others   any                            waits from now on
//	some       the same       for less than the time         waits as before
//	some       the same       for the time                   returns
//
// If it was not ready at some moment since then, or became so later, the time begins with
// that: what happens between two looks counts. The time is that of the policies, twice as
// long for each earlier return that is not a day ago, and no longer than a day for that.
func (w Waiting) When() Return {
	if len(w.Preferred) == 0 {
		return Return{}
	}
	since := w.Now
	if w.Awaited != nil && slices.Equal(w.Awaited.PhysicalClusters, w.Preferred) {
		since = w.Awaited.Since.Time
	}
	if w.Ready.After(since) {
		since = w.Ready
	}
	out := Return{Awaited: &placementv1alpha1.Awaited{PhysicalClusters: slices.Clone(w.Preferred), Since: metav1.NewTime(since)}}
	if w.Watched.After(since) {
		since = w.Watched
	}
	out.At = since.Add(w.Delay())
	out.Now = !w.Now.Before(out.At)
	return out
}

// Delay is for how long what is preferred must have been ready.
func (w Waiting) Delay() time.Duration {
	wait := duration(int64(min(max(minReturnSeconds, ptr.Deref(w.Move.ReturnAfterSeconds, DefaultReturn)), maxReturnSeconds)))
	if w.recent() {
		for range min(w.Returned.Times, 16) {
			wait *= 2
		}
	}
	return min(wait, maxReturnSeconds*time.Second)
}

// Look is how often it is asked whether it still is: five times, but no more than that.
func (w Waiting) Look() time.Duration {
	return min(max(shortestLook, w.Delay()/5), longestLook)
}

// recent says that the last return still counts.
func (w Waiting) recent() bool {
	return w.Returned != nil && w.Now.Before(w.Returned.At.Add(returnMemory))
}

// Next is what is stored with a return that begins now.
func (w Waiting) Next() *placementv1alpha1.Returned {
	out := &placementv1alpha1.Returned{At: metav1.NewTime(w.Now), Times: 1}
	if w.recent() {
		out.Times = min(w.Returned.Times, 1<<30) + 1
	}
	return out
}

// ReadySince is when a physical cluster became ready, or ceased to be, last.
func ReadySince(c *fleetv1alpha1.PhysicalCluster) time.Time {
	ready := meta.FindStatusCondition(c.Status.Conditions, fleetv1alpha1.ConditionReady)
	return cmp.Or(ready, &metav1.Condition{}).LastTransitionTime.Time
}

// SameAwaited compares what is stored.
func SameAwaited(a, b *placementv1alpha1.Awaited) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.PhysicalClusters, b.PhysicalClusters) && a.Since.Equal(&b.Since)
}
