package transition

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// DefaultDrain is how many seconds what is left stays without traffic, if no policy says.
const DefaultDrain = 15

// Begin is the transition of a unit from what its placement says to another decision; nil
// if nothing changes. What a transition that is on its way has begun is undone by the
// new one, or goes on in it.
//
//	the physical cluster is          and decided now  then
//	decided, the unit runs there     yes              stays
//	decided, the unit runs there     no               From
//	decided, still in To             yes              To
//	decided, still in To             no               From: what was begun is removed
//	in From                          yes              To: what went on is ready at once
//	in From                          no               From
//	new                              yes              To
func Begin(spec placementv1alpha1.PlacementSpec, next []string, cause placementv1alpha1.TransitionCause, drainSeconds int32, now time.Time) *placementv1alpha1.Transition {
	if spec.Decision == nil {
		return nil
	}
	var runs, known []string
	for _, c := range spec.Decision.PhysicalClusters {
		known = append(known, c.Name)
		if spec.Transition == nil || !slices.Contains(spec.Transition.To, c.Name) {
			runs = append(runs, c.Name)
		}
	}
	if spec.Transition != nil {
		known = append(known, spec.Transition.From...)
	}
	t := &placementv1alpha1.Transition{
		Cause: cause, Phase: placementv1alpha1.TransitionStarting,
		Started: metav1.NewTime(now), Since: metav1.NewTime(now), DrainSeconds: drainSeconds,
	}
	for _, name := range next {
		if !slices.Contains(runs, name) {
			t.To = append(t.To, name)
		}
	}
	for _, name := range known {
		if !slices.Contains(next, name) {
			t.From = append(t.From, name)
		}
	}
	slices.Sort(t.To)
	slices.Sort(t.From)
	t.From = slices.Compact(t.From)
	if len(t.To)+len(t.From) == 0 {
		return nil
	}
	return t
}
