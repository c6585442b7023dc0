package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

const (
	// moveInterval is how soon a transition is looked at without an event, maxMoveInterval how
	// late: what decides tells an event, see subscribe, and this is for what does not.
	moveInterval, maxMoveInterval = time.Second, 15 * time.Second
	// askAgain is when an answer is looked for that was not there at once.
	askAgain = 300 * time.Millisecond
	// cached reads from the watch cache, live from the database. reported is cached, but for the
	// Copies, and known is live, but for kinds of which no object is known, and that bear no traffic.
	cached, live    = "0", ""
	reported, known = "reported", "known"
	// maxWaits is how many things that a transition waits for are named.
	maxWaits = 5
)

// advance brings a transition on. What the watch caches say is enough to wait; before a
// phase ends, what decides is read from the database, see confirms, and where the unit is to be
// is asked whether it is there: nothing is taken away upon what was true before.
func (c *Controller) advance(ctx context.Context, u *unit) (controller.Result, error) {
	v := c.verify(u)
	changes := !v.Satisfied
	if changes {
		opening, err := c.opening(ctx, u)
		if err != nil {
			return controller.Result{}, err
		}
		changes = !opening
	}
	if changes {
		// Another decision, also to go back, replaces this transition in each phase. What
		// keeps it from going elsewhere does not keep it from going on.
		if _, result, err := c.reconsider(ctx, u, v); err != nil || result.RequeueAfter < 0 {
			return controller.Result{}, err
		}
	}
	t := c.transitionOf(u)
	s, stale, err := c.state(ctx, u, cached)
	if err != nil {
		return controller.Result{}, err
	}
	more, err := c.restampSome(ctx, round{u.key, "moving"}, stale)
	if err = errors.Join(err, c.withdraw(ctx, u, t)); err != nil {
		return controller.Result{}, err
	}
	step := c.next(u, t, s)
	if step.Done || step.Phase != t.Phase {
		from := confirms(t, step)
		if s, _, err = c.state(ctx, u, from); err != nil {
			return controller.Result{}, err
		}
		if step = c.next(u, t, s); from != live && (step.Done || step.Phase != t.Phase) && !covers(from, confirms(t, step), s, t) {
			if s, _, err = c.state(ctx, u, live); err != nil {
				return controller.Result{}, err
			}
			step = c.next(u, t, s)
		}
		if leaves(t, step) {
			if waits := c.ask(ctx, s); len(waits) > 0 {
				step = transition.Step{Phase: t.Phase, Waits: waits, Again: askAgain}
			} else {
				step = c.next(u, t, s)
			}
		}
	}
	if step.Done || step.Phase != t.Phase {
		return controller.Result{}, c.enter(ctx, u, step)
	}
	kept, goesBack, err := c.abandon(ctx, u, v, step)
	if err != nil || goesBack.RequeueAfter < 0 {
		return controller.Result{}, err
	}
	result, err := c.writeStatus(ctx, u, v, moving(u.placement.Spec, step, kept))
	for _, next := range []controller.Result{goesBack, more, {RequeueAfter: step.Again}, {RequeueAfter: lookAgain(c.Clock.Now().Sub(t.Since.Time))}} {
		result = sooner(result, next)
	}
	return result, err
}

// next is what follows for a unit in a transition.
func (c *Controller) next(u *unit, t *placementv1alpha1.Transition, s transition.State) transition.Step {
	s.AvailableSince = c.moves.availableSince(u.key, t)
	step := c.Next(t, s)
	c.moves.noteAvailable(u.key, t, !step.Missing, s.Now)
	return step
}

// lookAgain is when to look at a transition again without an event, the later the longer its
// phase lasts.
func lookAgain(lasts time.Duration) time.Duration {
	return min(maxMoveInterval, max(moveInterval, lasts/4))
}

// confirms is what is read before a step is taken.
//
//	the step leads to          from        as
//	the end, of what leaves    reported    no entry that is gone comes back by itself, and every copy has
//	something                              a Copy: the Copies say what is there. One of which the object
//	                                       is not known is a reason to read all
//	Draining                   known       it takes nothing away, and can be taken back: what nobody
//	                                       knows of yet has no traffic to lose
//	any other                  live        something is removed, or may be
func confirms(t *placementv1alpha1.Transition, step transition.Step) string {
	switch {
	case step.Done && len(t.From) > 0 && stamp.PhaseRemoves(t.Phase):
		return reported
	case !step.Done && step.Phase == placementv1alpha1.TransitionDraining:
		return known
	}
	return live
}

// covers says that what was read is enough for the step that follows from it.
func covers(read, needed string, s transition.State, t *placementv1alpha1.Transition) bool {
	switch {
	case read != needed:
		return false
	case read == reported:
		return !slices.ContainsFunc(t.From, func(name string) bool { return s.Unknown[name] })
	}
	return true
}

// leaves says that a step takes traffic, or what runs, from where it is.
func leaves(t *placementv1alpha1.Transition, step transition.Step) bool {
	return len(t.From) > 0 && !step.Done && step.Phase != t.Phase && step.Phase != placementv1alpha1.TransitionStarting && !stamp.PhaseRemoves(t.Phase)
}

// ask asks where the unit is to be whether it is there: reports are up to a minute old, and of one
// that hangs, or has died a moment ago, all is well. Those that are not there are not ready: nothing
// is withdrawn then, and traffic comes back. It returns whose answers are waited for.
func (c *Controller) ask(ctx context.Context, s transition.State) (waits []string) {
	if c.Answer == nil {
		return nil
	}
	for _, name := range s.Decided {
		if s.NotReady[name] != "" {
			continue
		}
		switch known, err := c.Answer(ctx, name); {
		case !known && err != nil:
			waits = append(waits, fmt.Sprintf("%s: %s", name, err))
		case !known:
			waits = append(waits, name+" is asked whether it is there")
		case err != nil:
			s.NotReady[name] = err.Error()
		}
	}
	return waits
}

// opening says that data were copied for a unit, and that not all claims are stamped to say that
// the copies count from now on. What uses them may have begun: a decision to go back would take what
// was copied for what is newer. It comes a moment later.
func (c *Controller) opening(ctx context.Context, u *unit) (bool, error) {
	if u.placement.Spec.Transition.Phase != placementv1alpha1.TransitionClearing {
		return false, nil
	}
	s, _, err := c.state(ctx, u, live)
	return s.Filling(), err
}

// enter writes the next phase, or that the transition is over.
func (c *Controller) enter(ctx context.Context, u *unit, step transition.Step) error {
	p, t := u.placement.DeepCopy(), c.transitionOf(u)
	now := c.Clock.Now()
	if step.Done {
		p.Spec.Transition = nil
		p.Spec.WentBack = placement.Arrived(p.Spec.WentBack, t.To)
	} else {
		p.Spec.Transition.Phase, p.Spec.Transition.Since = step.Phase, metav1.NewTime(now)
	}
	if _, err := c.Client.PlacementV1alpha1().Placements(p.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("entering the next phase of a move: %w", err)
	}
	if !step.Done {
		return nil
	}
	return c.record(ctx, normal(p, "Moved", fmt.Sprintf("is on %s now, %s after it began", strings.Join(stamp.Decided(p).Names(), ", "),
		now.Sub(t.Started.Time).Round(time.Second)), now))
}

// moving says what a transition waits for, and kept why it does not go back although it is stuck.
func moving(spec placementv1alpha1.PlacementSpec, step transition.Step, kept string) *metav1.Condition {
	t := spec.Transition
	message := "from " + strings.Join(t.From, ", ") + " to " + strings.Join(t.To, ", ")
	switch {
	case len(t.From) == 0:
		message = "to " + strings.Join(t.To, ", ")
	case len(t.To) == 0:
		message = "from " + strings.Join(t.From, ", ")
	}
	if w := spec.WentBack; w != nil && t.Cause == placementv1alpha1.CauseStuck {
		message += ", where it did not become available (" + w.Message + ")"
	}
	if waits := firstOf(step.Waits); len(waits) > 0 {
		message += "; waits: " + strings.Join(waits, "; ")
	}
	if kept != "" {
		message += "; is stuck, and does not go back: " + kept
	}
	return &metav1.Condition{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionTrue, Reason: string(t.Phase), Message: message}
}
