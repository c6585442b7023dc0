package simulation

import (
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
)

// removesFirst breaks before it makes.
func removesFirst(t *placementv1alpha1.Transition, s transition.State) transition.Step {
	if t.Phase == placementv1alpha1.TransitionStarting && len(t.From) > 0 {
		return transition.Step{Phase: placementv1alpha1.TransitionRemoving}
	}
	return transition.Next(t, s)
}

// drainsNot removes what it has just withdrawn, whoever is still sent there.
func drainsNot(t *placementv1alpha1.Transition, s transition.State) transition.Step {
	step := transition.Next(t, s)
	if step.Phase == placementv1alpha1.TransitionDraining {
		step.Phase = placementv1alpha1.TransitionRemoving
	}
	return step
}

// releasesAtOnce gives up what is kept without looking at the others.
func releasesAtOnce(current placementv1alpha1.Targets, _ int32, _, _ map[string]int32) placementv1alpha1.Targets {
	next := placementv1alpha1.Targets{}
	for name, t := range current {
		if t.Share != nil {
			t.Replicas, t.Share = t.Share, nil
		}
		next[name] = t
	}
	return next
}

// keepsAll never gives up what is kept.
func keepsAll(current placementv1alpha1.Targets, _ int32, _, _ map[string]int32) placementv1alpha1.Targets {
	return current
}
