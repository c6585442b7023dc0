package placement

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// DefaultStuck is for how many seconds a move must not have become available to be stuck, if
	// no policy says.
	DefaultStuck    = 300
	minStuckSeconds = 1
	maxStuckSeconds = 24 * 60 * 60
	// firstHold and longestHold bound for how long policies do not move a unit again where it went
	// back from.
	firstHold   = 5 * time.Minute
	longestHold = 24 * time.Hour
	// stuckMemory is how long after such a time another return counts as one more.
	stuckMemory = 24 * time.Hour
	// maxTried bounds how many physical clusters are remembered, and maxWhy the reason.
	maxTried = 32
	maxWhy   = 512
)

// Stuck is what is known of a unit whose moves may not become available where they go.
type Stuck struct {
	Move placementv1alpha1.MoveRules
	// WentBack is what it went back from so far.
	WentBack *placementv1alpha1.WentBack
	// Policies are those that are heard now, and Content the digest of the pod templates; empty:
	// not known, and taken to be as it was.
	Policies []placementv1alpha1.PolicyReference
	Content  string
	// Watched is since when this server watches: before, it did not see what became available.
	Watched, Now time.Time
}

// GoesBackAt says when a unit goes back from a move that is stuck; ok is false if it never does.
//
//	the phase       it goes  policies say    then
//	Starting        yes      GoBack          once the phase has lasted, and been watched, for the time
//	any other combination                    never: something was withdrawn, nothing is new, or it waits
//
// What policies do not hold (see Held) may be moved again at once. So for these causes the time
// doubles with each return: however often something comes and goes, the unit does not go back and
// forth.
func (s Stuck) GoesBackAt(t *placementv1alpha1.Transition) (at time.Time, ok bool) {
	if s.Move.IfStuck != placementv1alpha1.IfStuckGoBack || t == nil || t.Phase != placementv1alpha1.TransitionStarting || len(t.To) == 0 {
		return time.Time{}, false
	}
	since := t.Since.Time
	if s.Watched.After(since) {
		since = s.Watched
	}
	return since.Add(s.after(t.Cause)), true
}

func (s Stuck) after(cause placementv1alpha1.TransitionCause) time.Duration {
	after := duration(int64(min(max(minStuckSeconds, ptr.Deref(s.Move.StuckAfterSeconds, DefaultStuck)), maxStuckSeconds)))
	if isHeld(cause) || !s.counts() {
		return after
	}
	return doubled(after, s.WentBack.Times, longestHold)
}

// isHeld says that moves of a cause are those that policies want by themselves, of what runs where
// it is. A user, an admin or another scheduler asked for the others by name, or the unit does not
// run where it is.
func isHeld(cause placementv1alpha1.TransitionCause) bool {
	return cause == placementv1alpha1.CausePolicy || cause == placementv1alpha1.CauseReturn
}

// Held are the physical clusters to which a unit is not moved for a cause, and until when.
//
//	the cause       policies and pod     the time   the physical     held
//	                templates                       cluster
//	Policy, Return  are as they were     is not     has not become   yes
//	                                     over       ready anew
//	any other combination                                            no
//
// ready is when a physical cluster became ready, or ceased to be, last; see ReadySince.
func (s Stuck) Held(cause placementv1alpha1.TransitionCause, ready func(name string) time.Time) (names []string, until time.Time) {
	w := s.WentBack
	if w == nil || !isHeld(cause) || s.Anew() || !s.Now.Before(w.Until.Time) {
		return nil, time.Time{}
	}
	for _, name := range w.PhysicalClusters {
		if !ready(name).After(w.At.Time) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, time.Time{}
	}
	return names, w.Until.Time
}

// Anew says that policies or pod templates are others than those with which the unit went back:
// that is worth another try.
func (s Stuck) Anew() bool {
	w := s.WentBack
	return w != nil && (!slices.Equal(w.Policies, s.Policies) || s.Content != "" && w.Content != s.Content)
}

// counts says that what the unit went back from counts as the time before the next one.
func (s Stuck) counts() bool {
	return s.WentBack != nil && !s.Anew() && s.Now.Before(s.WentBack.Until.Add(stuckMemory))
}

// Next is what is stored with a return that begins now, from physical clusters where the unit did
// not become available. The time for which it is held doubles with each, and what is held yet is
// held as long.
func (s Stuck) Next(from []string, why string) *placementv1alpha1.WentBack {
	out := &placementv1alpha1.WentBack{
		PhysicalClusters: slices.Clone(from), At: metav1.NewTime(s.Now), Times: 1, Policies: slices.Clone(s.Policies), Content: s.Content, Message: why,
	}
	if len(why) > maxWhy {
		out.Message = why[:maxWhy-3] + "..."
	}
	if s.counts() {
		out.Times = min(s.WentBack.Times, 1<<30) + 1
		if held := s.WentBack.PhysicalClusters; s.Now.Before(s.WentBack.Until.Time) && len(held)+len(from) <= maxTried {
			out.PhysicalClusters = append(out.PhysicalClusters, held...)
		}
	}
	out.PhysicalClusters = sorted(out.PhysicalClusters)
	out.Until = metav1.NewTime(s.Now.Add(doubled(firstHold, out.Times-1, longestHold)))
	return out
}

// Arrived is what is left of what a unit went back from, when it has become available on some
// physical clusters.
func Arrived(w *placementv1alpha1.WentBack, on []string) *placementv1alpha1.WentBack {
	if w == nil {
		return nil
	}
	left := w.DeepCopy()
	left.PhysicalClusters = slices.DeleteFunc(left.PhysicalClusters, func(name string) bool { return slices.Contains(on, name) })
	if len(left.PhysicalClusters) == 0 {
		return nil
	}
	return left
}

// doubled is a time that doubles some times, and no longer than longest for that.
func doubled(d time.Duration, times int32, longest time.Duration) time.Duration {
	if d >= longest {
		return d
	}
	for range min(times, 32) {
		if d *= 2; d >= longest {
			return longest
		}
	}
	return d
}
