package controller

import (
	"cmp"
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

// abandon has a unit go back to where it was, if policies let it and it has been on its way for so
// long without becoming available. step is what follows as the watch caches have it. What only waits
// for something to end where it was is available.
//
//	the move, see        something keeps it  the database    then
//	Stuck.GoesBackAt     there, see Keeps    says the same
//	never goes back      any                 any             goes on
//	does not go back yet any                 any             goes on, and is looked at again then
//	goes back now        yes                 any             goes on, and says what keeps it
//	goes back now        no                  no              goes on
//	goes back now        no                  yes             a decision for where it was, a transition
//	                                                         to there, and what was tried, in one write
func (c *Controller) abandon(ctx context.Context, u *unit, v verdict, step transition.Step) (kept string, _ controller.Result, _ error) {
	t, origin, now := c.transitionOf(u), transition.Origin(u.placement.Spec), c.Clock.Now()
	s := c.stuck(u, v)
	at, ok := s.GoesBackAt(t)
	switch {
	case !ok || len(origin) == 0 || !step.Missing:
		return "", controller.Result{}, nil
	case now.Before(at):
		return "", controller.Result{RequeueAfter: at.Sub(now)}, nil
	}
	there, back := c.mayGoBack(u, origin)
	if kept = back.Keeps(); kept != "" {
		return kept, controller.Result{RequeueAfter: maxMoveInterval}, nil
	}
	state, _, err := c.state(ctx, u, live)
	if err != nil {
		return "", controller.Result{}, err
	}
	if step = c.next(u, t, state); !step.Missing {
		return "", controller.Result{RequeueAfter: moveInterval}, nil // the watch caches come to that, too
	}
	leaves := slices.DeleteFunc(slices.Clone(state.Decided), func(name string) bool { return slices.Contains(origin, name) })
	back.Obstacles = transition.Obstacles(state.Objects, leaves, beganThere, c.forgotten)
	if kept = back.Keeps(); kept != "" {
		return kept, controller.Result{RequeueAfter: maxMoveInterval}, nil
	}
	next := transition.Begin(u.placement.Spec, origin, placementv1alpha1.CauseStuck, t.MoveTimes, now)
	if next == nil {
		return "", controller.Result{}, nil
	}
	s.Content = transition.Content(state.Objects)
	u.placement = u.placement.DeepCopy()
	u.placement.Spec.WentBack = s.Next(t.To, strings.Join(firstOf(step.Waits), "; "))
	return "", begun, c.beginToGoBack(ctx, u, next, there)
}

// beganThere: a claim that began where a unit goes has its data there.
func beganThere(transition.Object, string) string { return "it began there" }

// beginToGoBack writes the decision for where a unit was, as a change of mind.
func (c *Controller) beginToGoBack(ctx context.Context, u *unit, next *placementv1alpha1.Transition, there placement.Verdict) error {
	t, origin := c.transitionOf(u), transition.Origin(u.placement.Spec)
	c.take(u.key, next) // it moves already: there is room
	err := c.begin(ctx, u, placementv1alpha1.PlacementReviewStatus{
		PhysicalClusters: origin, Policies: there.Policies, SchedulerName: there.Scheduler, Division: there.Division, Overrides: there.Overrides, Rollout: there.Rollout,
	}, next)
	if err != nil {
		return err
	}
	now := c.Clock.Now()
	return c.record(ctx, warn(u.placement, placementv1alpha1.SchemeGroupVersion.WithKind("Placement"), placementv1alpha1.ReasonWentBack,
		fmt.Sprintf("goes back from %s to %s, as it did not become available there for %s: %s",
			strings.Join(t.To, ", "), strings.Join(origin, ", "), now.Sub(t.Since.Time).Round(time.Second), u.placement.Spec.WentBack.Message), now))
}

// mayGoBack says what policies say of a unit where it was, and what else is known of that.
func (c *Controller) mayGoBack(u *unit, origin []string) (there placement.Verdict, back transition.Back) {
	snapshot, asked := c.snapshotAt(u, origin)
	there = placement.Verify(snapshot, asked)
	switch {
	case !there.Satisfied:
		// The sentence says first where it is placed, which it is not.
		_, why, _ := strings.Cut(there.Message, "; ")
		back.Refused = cmp.Or(why, there.Message)
	case !there.Until.IsZero():
		back.Refused = fmt.Sprintf("it may be on %s until %s only", strings.Join(origin, ", "), there.Until.UTC().Format(time.RFC3339))
	}
	back.NotReady = map[string]string{}
	for _, name := range origin {
		pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if why := c.notReady(name); why != "" {
			back.NotReady[name] = why
		} else if ok && pc.DeletionTimestamp != nil {
			back.NotReady[name] = "the physical cluster is being removed"
		}
	}
	return there, back
}

// stuck is what is known of a unit's moves, without the digest of its pod templates.
func (c *Controller) stuck(u *unit, v verdict) placement.Stuck {
	return placement.Stuck{Move: v.Move, WentBack: u.placement.Spec.WentBack, Policies: v.Policies, Watched: c.watchedSince(), Now: c.Clock.Now()}
}

// tried is what is known of what a unit went back from, also of its pod templates. These are read
// only if they count.
func (c *Controller) tried(ctx context.Context, u *unit, v verdict) (placement.Stuck, error) {
	s := c.stuck(u, v)
	if s.WentBack == nil || s.Anew() {
		return s, nil
	}
	state, _, err := c.state(ctx, u, cached)
	s.Content = transition.Content(state.Objects)
	return s, err
}

// held are the physical clusters to which a unit is not moved now for a cause, as it went back from
// there, and until when.
func (c *Controller) held(ctx context.Context, u *unit, v verdict, cause placementv1alpha1.TransitionCause) (names []string, until time.Time, _ error) {
	if names, _ = c.stuck(u, v).Held(cause, c.ready); len(names) == 0 {
		return nil, time.Time{}, nil
	}
	s, err := c.tried(ctx, u, v)
	if err != nil {
		return nil, time.Time{}, err
	}
	names, until = s.Held(cause, c.ready)
	decided := stamp.Decided(u.placement)
	return slices.DeleteFunc(names, func(name string) bool { _, ok := decided[name]; return ok }), until, nil
}

// ready is when a physical cluster became ready, or ceased to be, last.
func (c *Controller) ready(name string) time.Time { return c.readySince([]string{name}, nil) }

// heldBack is that a unit is not moved yet to where it went back from; elsewhere is why it goes
// nowhere else, if that is known.
func (c *Controller) heldBack(u *unit, names []string, until time.Time, elsewhere string, again time.Duration) (*metav1.Condition, controller.Result, error) {
	w := u.placement.Spec.WentBack
	message := fmt.Sprintf("it went back from %s at %s, and is not moved there before %s, unless policies or pod templates change, or that becomes ready anew",
		strings.Join(names, ", "), w.At.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	if w.Message != "" {
		message += "; what was missing: " + w.Message
	}
	if elsewhere != "" {
		message += "; elsewhere: " + elsewhere
	}
	return stays(placementv1alpha1.ReasonWentBack, message, max(time.Second, min(again, until.Sub(c.Clock.Now()))))
}

// firstOf are the first of what is waited for.
func firstOf(waits []string) []string {
	if len(waits) <= maxWaits {
		return waits
	}
	return append(waits[:maxWaits:maxWaits], fmt.Sprintf("and %d more", len(waits)-maxWaits))
}
