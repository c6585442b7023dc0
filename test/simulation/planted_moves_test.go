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
