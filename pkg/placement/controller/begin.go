package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

const (
	// blockedInterval is how often it is tried again to move what something keeps.
	blockedInterval = 15 * time.Second
	// queuedInterval is how often it is asked whether there is room to move.
	queuedInterval = 2 * time.Second
)

// begun is the result of having begun a transition: its write brings us back.
var begun = controller.Result{RequeueAfter: -1}

// reconsider begins a transition if the decision is not what is wanted any more.
//
//	the decision                              then
//	is what is wanted                         nothing
//	is not, for less than a moment, and       nothing yet: who edits several things writes one
//	neither pin nor drain say so              after the other
//	is not where some objects have copies     what is there leaves: a server that was behind
//	                                          stamped them
//	is not, for where other namespaces are    stays: two that avoid each other would chase each other
//	is not, and there is nowhere else         stays, Moving=False
//	is not, and a policy says Never           stays, Moving=False; but a pin and a drain count
//	is not, and something cannot move         stays, Moving=False with all that
//	is not, and too many move                 later, Moving=False
//	is not                                    the new decision and the transition, in one write
func (c *Controller) reconsider(ctx context.Context, u *unit, v verdict) (*metav1.Condition, controller.Result, error) {
	cause := c.cause(u, v)
	if u.placement.Spec.Transition == nil && len(leftovers(u.placement, u.targets())) > 0 {
		left, err := c.leftovers(ctx, u)
		if err != nil || len(left) == 0 {
			return nil, controller.Result{}, err
		}
		now := metav1.NewTime(c.Clock.Now())
		t := &placementv1alpha1.Transition{
			Cause: placementv1alpha1.CauseLeftover, Phase: placementv1alpha1.TransitionStarting, Started: now, Since: now, From: left,
		}
		p := u.placement.DeepCopy()
		p.Spec.Transition = t
		if _, err := c.Client.PlacementV1alpha1().Placements(p.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil {
			return nil, controller.Result{}, fmt.Errorf("beginning to remove what is left: %w", err)
		}
		return nil, begun, nil
	}
	switch {
	case v.Satisfied, v.Reason == placement.ReasonAffinity, v.Reason == placement.ReasonAntiAffinity:
		return nil, controller.Result{}, nil
	case v.again > 0 && asPoliciesSay(cause):
		return nil, controller.Result{}, nil
	}
	review, err := c.Client.PlacementV1alpha1().PlacementReviews(u.key.Namespace).Create(ctx, &placementv1alpha1.PlacementReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, controller.Result{}, fmt.Errorf("asking where the namespace goes: %w", err)
	}
	status := review.Status
	stays := func(reason, message string, again time.Duration) (*metav1.Condition, controller.Result, error) {
		return &metav1.Condition{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: reason, Message: message},
			controller.Result{RequeueAfter: again}, nil
	}
	switch {
	case len(status.PhysicalClusters) == 0:
		return stays("NowhereToGo", status.Message, blockedInterval)
	case slices.Equal(status.Decided, status.PhysicalClusters):
		return nil, controller.Result{}, nil // the informers were behind
	case status.Move == placementv1alpha1.MoveNever && asPoliciesSay(cause):
		return stays("MoveNever", fmt.Sprintf("it would move to %s, but the policies say that it is never moved", strings.Join(status.PhysicalClusters, ", ")), 0)
	case len(status.Obstacles) > 0:
		return stays("Blocked", strings.Join(status.Obstacles, "; "), blockedInterval)
	}
	t := transition.Begin(u.placement.Spec, status.PhysicalClusters, cause, status.DrainSeconds, c.Clock.Now())
	if t == nil {
		return nil, controller.Result{}, nil
	}
	if !c.moves.take(u.key, t, bounds{c.MaxMoves, c.MaxMovesEach}, c.Clock.Now()) {
		return stays("Queued", "as many namespaces move as may move at a time", queuedInterval)
	}
	return nil, begun, c.begin(ctx, u, status, t)
}

// leftovers are the physical clusters on which objects of a unit are, as the database has
// it: informers may still show those of an earlier namespace of the name.
func (c *Controller) leftovers(ctx context.Context, u *unit) ([]string, error) {
	s, _, err := c.state(ctx, u, live)
	if err != nil {
		return nil, err
	}
	var all []placementv1alpha1.Targets
	for _, o := range s.Objects {
		all = append(all, stamp.TargetsOf(o.Logical.GetAnnotations()))
	}
	return leftovers(u.placement, all), nil
}

// leftovers are physical clusters that keep copies and are not the unit's.
func leftovers(p *placementv1alpha1.Placement, all []placementv1alpha1.Targets) []string {
	unit := stamp.UnitOf(p)
	found := placementv1alpha1.Targets{}
	for _, targets := range all {
		for name, target := range targets {
			if _, ok := unit[name]; !ok && target.Keeps() {
				found[name] = target
			}
		}
	}
	return found.Names()
}

// targets are those of the objects, as informers have them.
func (u *unit) targets() []placementv1alpha1.Targets {
	all := make([]placementv1alpha1.Targets, 0, len(u.objects))
	for _, o := range u.objects {
		all = append(all, o.Targets)
	}
	return all
}

// begin writes a decision with its transition, upon what was read: whoever decided in
// between has decided.
func (c *Controller) begin(ctx context.Context, u *unit, review placementv1alpha1.PlacementReviewStatus, t *placementv1alpha1.Transition) error {
	p := u.placement.DeepCopy()
	p.Spec.Decision = placement.Decision{PhysicalClusters: review.PhysicalClusters, Policies: review.Policies}.API()
	p.Spec.Transition = t
	if _, err := c.Client.PlacementV1alpha1().Placements(p.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil {
		c.moves.set(u.key, u.placement.Spec.Transition)
		return fmt.Errorf("beginning to move: %w", err)
	}
	return c.record(ctx, normal(p, "Moving", fmt.Sprintf("moves from %s to %s (%s)",
		strings.Join(stamp.Decided(u.placement).Names(), ", "), strings.Join(review.PhysicalClusters, ", "), t.Cause), c.Clock.Now()))
}

// cause is why the decision may not be what is wanted.
func (c *Controller) cause(u *unit, v verdict) placementv1alpha1.TransitionCause {
	decided := stamp.Decided(u.placement)
	for _, name := range decided.Names() {
		if pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name}); ok && pc.Spec.Drain.Requested {
			return placementv1alpha1.CauseDrain
		}
	}
	if pin := u.namespace.Annotations[placementv1alpha1.PhysicalClusterAnnotation]; pin != "" && !slices.Equal(decided.Names(), []string{pin}) {
		return placementv1alpha1.CausePinned
	}
	if v.Reason == placement.ReasonUnreachable {
		return placementv1alpha1.CauseLost
	}
	return placementv1alpha1.CausePolicy
}

// asPoliciesSay tells what policies want from what a user or an admin asked for by name.
func asPoliciesSay(cause placementv1alpha1.TransitionCause) bool {
	return cause == placementv1alpha1.CausePolicy || cause == placementv1alpha1.CauseLost
}
