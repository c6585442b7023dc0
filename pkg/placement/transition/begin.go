package transition

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// defaultTimes are those of a move if no policy says. kube-proxy writes rules at most once a second, and
// takes seconds for it where there are thousands of Services.
var defaultTimes = placementv1alpha1.MoveTimes{MinReadySeconds: 5, DrainSeconds: 15}

// TimesOf are the times of a move by what policies say.
func TimesOf(rules placementv1alpha1.MoveRules) placementv1alpha1.MoveTimes {
	return placementv1alpha1.MoveTimes{
		MinReadySeconds: ptr.Deref(rules.MinReadySeconds, defaultTimes.MinReadySeconds),
		DrainSeconds:    ptr.Deref(rules.DrainSeconds, defaultTimes.DrainSeconds),
	}
}

// Begin is the transition of a unit from what its placement says to another decision; nil
// if nothing changes. What a transition that is on its way has begun is undone by the
// new one, or goes on in it. Who has the traffic keeps it as long as nobody else can.
//
//	the physical cluster           and decided now  then
//	has the traffic, see serving   yes              stays
//	has the traffic                no               From
//	another, decided or in From    yes              To
//	another, decided or in From    no               From and Withdrawn: what was begun is removed
//	new                            yes              To
func Begin(spec placementv1alpha1.PlacementSpec, next []string, cause placementv1alpha1.TransitionCause, times placementv1alpha1.MoveTimes, now time.Time) *placementv1alpha1.Transition {
	if spec.Decision == nil {
		return nil
	}
	has := serving(spec)
	known := slices.Clone(has)
	for _, c := range spec.Decision.PhysicalClusters {
		known = append(known, c.Name)
	}
	if spec.Transition != nil {
		known = append(known, spec.Transition.From...)
	}
	t := &placementv1alpha1.Transition{
		Cause: cause, Phase: placementv1alpha1.TransitionStarting,
		Started: metav1.NewTime(now), Since: metav1.NewTime(now), MoveTimes: times,
	}
	for _, name := range next {
		if !slices.Contains(has, name) {
			t.To = append(t.To, name)
		}
	}
	slices.Sort(known)
	for _, name := range slices.Compact(known) {
		if slices.Contains(next, name) {
			continue
		}
		t.From = append(t.From, name)
		if !slices.Contains(has, name) {
			t.Withdrawn = append(t.Withdrawn, name)
		}
	}
	slices.Sort(t.To)
	if len(t.To)+len(t.From) == 0 {
		return nil
	}
	return t
}

// serving are the physical clusters that have the traffic of a unit.
//
//	the physical cluster is    Starting               Draining, Removing, or no transition
//	decided, not in To         yes                    yes
//	decided, in To             no                     yes
//	in From                    unless it is Withdrawn no
func serving(spec placementv1alpha1.PlacementSpec) []string {
	var out []string
	t := spec.Transition
	starting := t != nil && t.Phase == placementv1alpha1.TransitionStarting
	for _, c := range spec.Decision.PhysicalClusters {
		if !starting || !slices.Contains(t.To, c.Name) {
			out = append(out, c.Name)
		}
	}
	if starting {
		for _, name := range t.From {
			if !slices.Contains(t.Withdrawn, name) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
