package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/pace"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

const (
	// blockedInterval is how often it is tried again to move what something keeps, if that are few units.
	// Each try is a review of some thirty requests: of thousands that have nowhere to go, or would return to
	// where no room is, one is tried in each blockedEach.
	blockedInterval = 15 * time.Second
	blockedEach     = 100 * time.Millisecond
	// queuedInterval is how often it is asked whether there is room to move. Who is next is
	// woken; this is for when a move does not come on any more, which is no event.
	queuedInterval = 30 * time.Second
	// queuedEach is for how many units that wait longer the interval is as long again: of thousands, some ten
	// a second are looked at.
	queuedEach = 100
	// maxAsked is how often a unit asks at once where it goes while others begin to go there, and
	// againInterval when it asks again.
	maxAsked      = 3
	againInterval = time.Second
)

// begun is the result of having begun a transition: its write brings us back.
var begun = controller.Result{RequeueAfter: -1}

// reconsider begins a transition if the decision is not what is wanted any more.
//
//	the decision                              then
//	is what is wanted                         nothing; of a unit of root that leaves last: Moving=False
//	is not, for less than a moment, and       nothing yet: who edits several things writes one
//	an admin or a pin does not say so         after the other
//	is not where some objects have copies     what is there leaves, see leave
//	is not, for where other namespaces are    stays: two that avoid each other would chase each other
//	is not, and too many move                 later, Moving=False, without asking where to
//	is not, and there is nowhere else         stays, Moving=False
//	is not, and policies want it only where   stays, Moving=False
//	it went back from a moment ago
//	is not, and another scheduler decides     as it has bound, else stays, Moving=False
//	is not, and a policy says Never           stays, Moving=False; but a pin, a drain and what an
//	                                          admin gave up count
//	is not, and something cannot move         stays, Moving=False with all that
//	is not, and too many move to there        later, Moving=False
//	is not                                    the new decision and the transition, in one write
func (c *Controller) reconsider(ctx context.Context, u *unit, v verdict) (*metav1.Condition, controller.Result, error) {
	c.moves.release(u.key)
	if c.moves.stopWaiting(u.key) {
		defer func() {
			if !c.moves.waits(u.key) { // else nobody else comes next
				c.wake()
			}
		}()
	}
	cause := c.cause(u, v)
	byPolicies := asPoliciesSay(cause) && !c.givenUp(u)
	if u.outside && u.placement.Spec.Transition == nil {
		if moving, result, err := c.leave(ctx, u); err != nil || moving != nil || result.RequeueAfter < 0 {
			return moving, result, err
		}
	}
	switch {
	case v.Satisfied && len(v.last) > 0:
		return stays(placementv1alpha1.ReasonLeavesLast, fmt.Sprintf("it leaves %s once everything else has", strings.Join(v.last, ", ")), rootInterval)
	case v.Satisfied, byPolicies && (v.Reason == placement.ReasonAffinity || v.Reason == placement.ReasonAntiAffinity):
		return nil, controller.Result{}, nil
	case v.again > 0 && byPolicies:
		return nil, controller.Result{}, nil
	}
	if ok, moving, result, err := c.hasRoom(u, cause, byPolicies); !ok {
		return moving, result, err
	}
	if c.saidKept(u, cause, byPolicies) == nil { // else it hardly begins, and there may be many
		// Where there is room for one, all others would be reviewed in vain.
		if err := c.reviews.Acquire(ctx, 1); err != nil {
			return nil, controller.Result{}, err
		}
		defer c.reviews.Release(1)
		if ok, moving, result, err := c.hasRoom(u, cause, byPolicies); !ok {
			return moving, result, err
		}
	}
	return c.tryToBegin(ctx, u, v, cause, byPolicies, 1)
}

// tryToBegin asks where a unit goes, beside what moves there already, and begins that. It asks
// again if another unit began meanwhile that goes there, too.
func (c *Controller) tryToBegin(ctx context.Context, u *unit, v verdict, cause placementv1alpha1.TransitionCause, byPolicies bool, asked int) (*metav1.Condition, controller.Result, error) {
	held, until, err := c.held(ctx, u, v, cause)
	if err != nil {
		return nil, controller.Result{}, err
	}
	others := c.others(u.key)
	status, err := c.review(ctx, u, placementv1alpha1.PlacementReviewSpec{Without: held, Assumed: pace.Taken(maps.Values(others), c.Clock.Now())})
	if err != nil {
		return nil, controller.Result{}, err
	}
	switch {
	case len(status.PhysicalClusters) == 0 && status.SchedulerName != "":
		return stays(placementv1alpha1.ReasonWaitsForScheduler, status.Message, c.tryAgain(u, blockedInterval))
	case len(status.PhysicalClusters) == 0 && len(held) > 0:
		return c.heldBack(u, held, until, status.Message, c.tryAgain(u, blockedInterval))
	case len(status.PhysicalClusters) == 0:
		return stays("NowhereToGo", status.Message, c.tryAgain(u, blockedInterval))
	case slices.Equal(status.Decided, status.PhysicalClusters):
		return nil, controller.Result{}, nil // the informers were behind
	case status.Move == placementv1alpha1.MoveNever && (byPolicies || cause == placementv1alpha1.CauseBound):
		return stays("MoveNever", fmt.Sprintf("it would move to %s, but the policies say that it is never moved", strings.Join(status.PhysicalClusters, ", ")), 0)
	case len(status.Obstacles) > 0:
		return stays("Blocked", strings.Join(status.Obstacles, "; "), c.tryAgain(u, blockedInterval))
	}
	t := transition.Begin(u.placement.Spec, status.PhysicalClusters, cause, status.MoveTimes, c.Clock.Now())
	if t == nil {
		return nil, controller.Result{}, nil
	}
	t.Requests = status.Requests
	full, ok := c.takeBeside(u.key, t, others)
	switch {
	case !ok && asked < maxAsked:
		return c.tryToBegin(ctx, u, v, cause, byPolicies, asked+1)
	case !ok:
		moving, _, err := c.queued(u, t, "others begin to go there")
		return moving, controller.Result{RequeueAfter: againInterval}, err
	case full != "":
		return c.queued(u, t, full)
	}
	return nil, begun, c.begin(ctx, u, status, t)
}

// hasRoom asks whether a unit may begin to move before it is asked where it goes, which costs
// some thirty requests: of a drain of thousands most wait. What kept it before is kept in its
// status, and it does not take the place of others in the queue.
func (c *Controller) hasRoom(u *unit, cause placementv1alpha1.TransitionCause, byPolicies bool) (ok bool, _ *metav1.Condition, _ controller.Result, _ error) {
	t := c.expected(u, cause)
	full := c.full(u.key, t)
	if full == "" {
		return true, nil, controller.Result{}, nil
	}
	if said := c.saidKept(u, cause, byPolicies); said != nil {
		moving, result, err := stays(said.Reason, said.Message, c.tryAgain(u, blockedInterval))
		return false, moving, result, err
	}
	moving, result, err := c.queued(u, t, full)
	return false, moving, result, err
}

// saidKept is what was said of a unit that was found to be kept from moving; nil if it was not.
func (c *Controller) saidKept(u *unit, cause placementv1alpha1.TransitionCause, byPolicies bool) *metav1.Condition {
	said := meta.FindStatusCondition(u.placement.Status.Conditions, placementv1alpha1.ConditionMoving)
	if said != nil && said.Status == metav1.ConditionFalse && c.isKept(u, said.Reason, byPolicies || cause == placementv1alpha1.CauseBound) {
		return said
	}
	return nil
}

// isKept says that a unit was found to be kept from moving, and may be still: not by others that
// move. held says that policies, or another scheduler, hold it.
func (c *Controller) isKept(u *unit, reason string, held bool) bool {
	switch reason {
	case "Blocked", "NowhereToGo":
		return true
	case "MoveNever", placementv1alpha1.ReasonWaitsForScheduler:
		return held
	case placementv1alpha1.ReasonWentBack:
		w := u.placement.Spec.WentBack
		return held && w != nil && c.Clock.Now().Before(w.Until.Time)
	}
	return false
}

// expected is the transition that a unit would begin, as far as the cause says.
func (c *Controller) expected(u *unit, cause placementv1alpha1.TransitionCause) *placementv1alpha1.Transition {
	t := &placementv1alpha1.Transition{Cause: cause}
	pin := c.pinOf(u)
	for _, name := range stamp.Decided(u.placement).Names() {
		switch pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name}); {
		case cause == placementv1alpha1.CauseDrain && ok && placement.Drains(pc, c.Clock.Now()),
			cause == placementv1alpha1.CauseLost && ok && pc.Spec.Forget,
			cause == placementv1alpha1.CausePinned && name != pin:
			t.From = append(t.From, name)
		}
	}
	if cause == placementv1alpha1.CausePinned {
		t.To = []string{pin}
	}
	return t
}

// tryAgain is when a unit is tried again that something keeps, after an interval at least.
func (c *Controller) tryAgain(u *unit, interval time.Duration) time.Duration {
	return max(interval, time.Duration(c.moves.keep(u.key))*blockedEach)
}

// untilDeadline asks for a look when the time is over that a drain has for a unit: it stays from then on.
func (c *Controller) untilDeadline(u *unit) (result controller.Result) {
	now := c.Clock.Now()
	for _, name := range stamp.Decided(u.placement).Names() {
		pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if ok && placement.Drains(pc, now) && pc.Spec.Drain.Deadline != nil {
			result = sooner(result, controller.Result{RequeueAfter: pc.Spec.Drain.Deadline.Sub(now)})
		}
	}
	return result
}

// stays is that a unit does not move as it should, and when to try again.
func stays(reason, message string, again time.Duration) (*metav1.Condition, controller.Result, error) {
	return &metav1.Condition{Type: placementv1alpha1.ConditionMoving, Status: metav1.ConditionFalse, Reason: reason, Message: message},
		controller.Result{RequeueAfter: again}, nil
}

// review asks where a unit goes.
func (c *Controller) review(ctx context.Context, u *unit, spec placementv1alpha1.PlacementReviewSpec) (placementv1alpha1.PlacementReviewStatus, error) {
	ask := &placementv1alpha1.PlacementReview{Spec: spec}
	if u.key.Name != placementv1alpha1.NamespaceUnit {
		ask.Spec.Unit = u.key.Name
	}
	review, err := c.Client.PlacementV1alpha1().PlacementReviews(u.key.Namespace).Create(ctx, ask, metav1.CreateOptions{})
	if err != nil {
		return placementv1alpha1.PlacementReviewStatus{}, fmt.Errorf("asking where the unit goes: %w", err)
	}
	return review.Status, nil
}

// leave begins to take objects of a unit from where they are and the unit is not: they were
// in another one, or a server that was behind stamped them. What it reads is what the
// database has: informers may still show objects of an earlier namespace of the name.
func (c *Controller) leave(ctx context.Context, u *unit) (*metav1.Condition, controller.Result, error) {
	s, _, err := c.state(ctx, u, live)
	if err != nil {
		return nil, controller.Result{}, err
	}
	var left []string
	var objects []transition.Object
	for _, o := range s.Objects {
		if outside := s.Outside(o); len(outside) > 0 {
			left, objects = append(left, outside...), append(objects, o)
		}
	}
	if len(left) == 0 {
		return nil, controller.Result{}, nil
	}
	slices.Sort(left)
	left = slices.Compact(left)
	if obstacles := transition.Obstacles(objects, left, keepsVolume, c.forgotten); len(obstacles) > 0 {
		return stays("Blocked", strings.Join(obstacles, "; "), c.tryAgain(u, blockedInterval))
	}
	status, err := c.review(ctx, u, placementv1alpha1.PlacementReviewSpec{})
	if err != nil {
		return nil, controller.Result{}, err
	}
	now := metav1.NewTime(c.Clock.Now())
	t := &placementv1alpha1.Transition{
		Cause: placementv1alpha1.CauseLeftover, Phase: placementv1alpha1.TransitionStarting, Started: now, Since: now, From: left, MoveTimes: status.MoveTimes,
	}
	if full := c.take(u.key, t); full != "" {
		return c.queued(u, t, full)
	}
	p := u.placement.DeepCopy()
	p.Spec.Transition = t
	if _, err := c.Client.PlacementV1alpha1().Placements(p.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil {
		c.moves.set(u.key, nil)
		return nil, controller.Result{}, fmt.Errorf("beginning to remove what is left: %w", err)
	}
	return nil, begun, nil
}

// keepsVolume: an object that changes its unit leaves places one by one.
func keepsVolume(transition.Object, string) string { return "it comes into another unit" }

// begin writes a decision with its transition, upon what was read: whoever decided in
// between has decided.
func (c *Controller) begin(ctx context.Context, u *unit, review placementv1alpha1.PlacementReviewStatus, t *placementv1alpha1.Transition) error {
	p := u.placement.DeepCopy()
	p.Spec.Decision = placement.KeepCounted(placement.Decision{
		PhysicalClusters: review.PhysicalClusters, Policies: review.Policies, Scheduler: review.SchedulerName, Division: review.Division, Overrides: review.Overrides, Rollout: review.Rollout, Requests: review.Requests,
	}.API(), u.placement.Spec.Decision)
	if review.SchedulerName == "" {
		p.Spec.Bound = nil // it is overruled
	}
	p.Spec.Transition = t
	if _, err := c.Client.PlacementV1alpha1().Placements(p.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil {
		c.moves.set(u.key, c.transitionOf(u))
		return fmt.Errorf("beginning to move: %w", err)
	}
	return c.record(ctx, normal(p, "Moving", fmt.Sprintf("moves from %s to %s (%s)",
		strings.Join(stamp.Decided(u.placement).Names(), ", "), strings.Join(review.PhysicalClusters, ", "), t.Cause), c.Clock.Now()))
}

// cause is why the decision may not be what is wanted. What an admin gave up comes first: it
// does not run there any more, so that it is none of what a drain moves at its own pace.
func (c *Controller) cause(u *unit, v verdict) placementv1alpha1.TransitionCause {
	if c.givenUp(u) {
		return placementv1alpha1.CauseLost
	}
	decided := stamp.Decided(u.placement)
	for _, name := range decided.Names() {
		if pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name}); ok && placement.Drains(pc, c.Clock.Now()) {
			return placementv1alpha1.CauseDrain
		}
	}
	if pin := c.pinOf(u); pin != "" && !slices.Equal(decided.Names(), []string{pin}) {
		return placementv1alpha1.CausePinned
	}
	switch v.Reason {
	case placement.ReasonBound:
		return placementv1alpha1.CauseBound
	case placement.ReasonUnreachable:
		return placementv1alpha1.CauseLost
	}
	return placementv1alpha1.CausePolicy
}

// forgotten says that an admin declared a physical cluster lost for good.
func (c *Controller) forgotten(name string) bool {
	pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	return ok && pc.Spec.Forget
}

// givenUp says that a unit is decided for what was given up.
func (c *Controller) givenUp(u *unit) bool {
	return slices.ContainsFunc(stamp.Decided(u.placement).Names(), c.forgotten)
}

// asPoliciesSay tells what policies want from what a user or an admin asked for by name.
func asPoliciesSay(cause placementv1alpha1.TransitionCause) bool {
	return cause == placementv1alpha1.CausePolicy || cause == placementv1alpha1.CauseLost
}
