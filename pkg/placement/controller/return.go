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
)

// look is what a review said lately of a unit that may return, and until when it is not
// asked again. It only spares reviews: another server, or this one when it has forgotten,
// asks.
type look struct {
	until   time.Time
	said    *metav1.Condition
	awaited bool
}

// goBack begins to move a unit to what preferences want more than where it is, see
// placement.Preferred, once that has been ready for it for as long as they say. It leaves
// in u.awaited what is to be stored of that.
//
//	preferences want it   a review, which knows   the time,         then
//	elsewhere, as far as  what it needs and       see Waiting.When
//	informers know        reads the database
//	no                    is not asked            any               stays
//	yes                   says no                 any               stays: there is no room, or it went
//	                                                                back from there a moment ago, see held
//	yes                   says yes                is not over       stays, Moving=False
//	yes                   says yes                is over           moves, as for any cause
//
// The review is asked once in a look: what physical clusters report in between, however
// often, makes no work.
func (c *Controller) goBack(ctx context.Context, u *unit, v verdict) (*metav1.Condition, controller.Result, error) {
	if !v.Satisfied || v.Move.Return != placementv1alpha1.ReturnWhenPreferred || u.namespace.DeletionTimestamp != nil {
		return nil, controller.Result{}, nil
	}
	now, stored := c.Clock.Now(), u.placement.Status.Awaited
	w := placement.Waiting{Awaited: stored, Returned: u.placement.Spec.Returned, Move: v.Move, Watched: c.watchedSince(), Now: now}
	s, asked := c.everywhere(u)
	if stored != nil {
		asked.Awaited, w.Preferred = stored.PhysicalClusters, stored.PhysicalClusters
	}
	switch preferred := placement.Preferred(s, asked); {
	case preferred.Settled:
		return nil, controller.Result{}, nil
	case !preferred.Better:
		return nil, controller.Result{RequeueAfter: w.Look()}, nil
	}
	if last, ok := c.lookedAt(u.key); ok && last.awaited == (stored != nil) && now.Before(last.until) {
		w.Ready = c.readySince(w.Preferred, asked.Decided)
		u.awaited = w.When().Awaited
		c.moves.keep(u.key)
		return last.said, controller.Result{RequeueAfter: last.until.Sub(now)}, nil
	}
	tried, err := c.tried(ctx, u, v)
	if err != nil {
		return nil, controller.Result{}, err
	}
	if tried.Anew() {
		w.Returned = nil
	}
	held, until := tried.Held(placementv1alpha1.CauseReturn, c.ready)
	status, err := c.review(ctx, u, placementv1alpha1.PlacementReviewSpec{Return: true, Without: held})
	if err != nil {
		return nil, controller.Result{}, err
	}
	if w.Preferred = nil; slices.Equal(status.Decided, asked.Decided) && !slices.Equal(status.Decided, status.PhysicalClusters) {
		w.Preferred = status.PhysicalClusters
	}
	w.Ready = c.readySince(w.Preferred, asked.Decided)
	r := w.When()
	u.awaited = r.Awaited
	moving, result := waits(w, r, status)
	if len(held) > 0 && r.Awaited == nil {
		moving, result, _ = c.heldBack(u, held, until, "", w.Look())
	}
	if r.Now && moving == nil {
		t := transition.Begin(u.placement.Spec, w.Preferred, placementv1alpha1.CauseReturn, status.MoveTimes, now)
		if t == nil {
			return nil, controller.Result{RequeueAfter: w.Look()}, nil
		}
		t.Requests = status.Requests
		full := c.take(u.key, t)
		if full == "" {
			u.placement = u.placement.DeepCopy()
			u.placement.Spec.Returned = w.Next()
			return nil, begun, c.begin(ctx, u, status, t)
		}
		moving, result, _ = stays(placementv1alpha1.ReasonQueued, full, blockedInterval)
	}
	if r.Awaited == nil || r.Now { // else it has a time
		result.RequeueAfter = c.tryAgain(u, result.RequeueAfter)
	}
	if placement.SameAwaited(stored, r.Awaited) { // else it is written, which brings us back
		c.looked.Add(u.key, look{now.Add(result.RequeueAfter), moving, stored != nil}, result.RequeueAfter)
	}
	return moving, result, nil
}

// waits says what keeps a unit from returning, and when to look again; nil if nothing does,
// or there is nowhere to return to.
func waits(w placement.Waiting, r placement.Return, status placementv1alpha1.PlacementReviewStatus) (*metav1.Condition, controller.Result) {
	again := w.Look()
	switch {
	case r.Awaited == nil, r.Now && len(status.Obstacles) == 0:
		return nil, controller.Result{RequeueAfter: again}
	case !r.Now:
		again = min(again, max(r.At.Sub(w.Now), time.Second))
		moving, result, _ := stays(placementv1alpha1.ReasonWaitsToReturn, fmt.Sprintf("policies prefer %s: it returns once that was ready for it for %s since %s",
			strings.Join(w.Preferred, ", "), w.Delay(), r.Awaited.Since.UTC().Format(time.RFC3339)), again)
		return moving, result
	}
	moving, result, _ := stays("Blocked", strings.Join(status.Obstacles, "; "), again)
	return moving, result
}

func (c *Controller) lookedAt(key controller.Request) (look, bool) {
	last, ok := c.looked.Get(key)
	if !ok {
		return look{}, false
	}
	return last.(look), true
}

// readySince is when the last of those became ready to which a unit would come.
func (c *Controller) readySince(to, decided []string) (last time.Time) {
	for _, name := range to {
		pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if !ok || slices.Contains(decided, name) {
			continue
		}
		if since := placement.ReadySince(pc); since.After(last) {
			last = since
		}
	}
	return last
}

// everywhere is snapshot with all physical clusters.
func (c *Controller) everywhere(u *unit) (placement.Snapshot, placement.Unit) {
	s, asked := c.snapshot(u)
	all := c.PhysicalClusters.List()
	s.PhysicalClusters, s.CutOff = make([]placement.PhysicalCluster, 0, len(all)), placement.CutOff(all)
	for _, pc := range all {
		s.PhysicalClusters = append(s.PhysicalClusters, placement.PhysicalCluster{PhysicalCluster: pc})
	}
	return s, asked
}
