package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
)

// Reports say for a while that all is well where nobody answers any more.
func TestNothingLeavesBeforeThePlaceMovedToAnswers(t *testing.T) {
	t.Parallel()
	starting, draining, removing := placementv1alpha1.TransitionStarting, placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionRemoving
	hangs := errors.New("it does not answer in time")
	for name, c := range map[string]struct {
		phase placementv1alpha1.TransitionPhase
		next  placementv1alpha1.TransitionPhase // if all is well; empty: what transition.Next says
		known bool
		err   error
		want  placementv1alpha1.TransitionPhase
		says  string
		asked []string
	}{
		"it answers":                         {phase: starting, known: true, want: draining, asked: []string{"west"}},
		"it answers, after traffic":          {phase: draining, next: removing, known: true, want: removing, asked: []string{"west"}},
		"it is asked yet":                    {phase: starting, want: starting, says: "True Starting: from east to west; waits: west is asked whether it is there", asked: []string{"west"}},
		"it is asked yet, after traffic":     {phase: draining, next: removing, want: draining, says: "True Draining: from east to west; waits: west is asked whether it is there", asked: []string{"west"}},
		"it is asked again, and hung before": {phase: starting, err: hangs, want: starting, says: "True Starting: from east to west; waits: west: it does not answer in time", asked: []string{"west"}},
		"it hangs":                           {phase: starting, known: true, err: hangs, want: starting, says: "True Starting: from east to west; waits: west: it does not answer in time", asked: []string{"west"}},
		"it hangs, so that traffic is back":  {phase: draining, next: removing, known: true, err: hangs, want: starting, asked: []string{"west"}},
		"what is being removed asks nothing": {phase: removing, known: true, err: hangs, want: removing, says: "True Removing: from east to west; waits: 2 objects are not gone from east; 2 objects have not got their targets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, n := onItsWay(placementv1alpha1.CauseReturn), complete()
			p.Spec.Transition.Phase = c.phase
			n.Annotations[placementv1alpha1.TargetsAnnotation] = both
			f := newFixture(t, append(copiesOnBoth(), goesBack(), isReady("east"), isReady("west"), n, p, deployment("web", both, 1), available("uid-pod", "west", 0))...)
			f.stores(both, whole("Deployment", "uid-web", both, map[string]any{"replicas": int64(0)}))
			if c.next != "" {
				f.Next = func(_ *placementv1alpha1.Transition, s transition.State) transition.Step {
					if why := s.NotReady["west"]; why != "" {
						return transition.Step{Phase: starting, Waits: []string{"west: " + why}}
					}
					return transition.Step{Phase: c.next}
				}
			}
			var asked []string
			f.Answer = func(_ context.Context, name string) (bool, error) {
				asked = append(asked, name)
				return c.known, c.err
			}
			f.clock.SetTime(start.Add(30 * time.Second))
			f.look()
			if got := f.placement().Spec.Transition; got == nil || got.Phase != c.want || c.want != c.phase && !got.Since.Equal(&metav1.Time{Time: f.clock.Now()}) {
				t.Errorf("the transition is %+v, want the phase %s", got, c.want)
			}
			if said := f.moving(); said != c.says {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked were %q, want %q", asked, c.asked)
			}
		})
	}
}
