package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// share sees to it that replicas are where the policies divide them to.
//
//	the unit                             an object                      then
//	is divided, or its copies are                                       the division and the overrides
//	overridden, otherwise than policies                                 of a review are written into the
//	say, for more than a moment                                         decision
//	is divided                           does not have its shares       it is sent through admission
//	is divided                           runs in one place, and waits   it is said: what removes it elsewhere
//	                                     to                             has it looked at again
//	is divided                           keeps more than its share      what others have taken over is
//	                                     somewhere, or waits for more   given up, see stamp.Released, or
//	                                                                    granted, see stamp.Granted
func (c *Controller) share(ctx context.Context, u *unit, v verdict) (controller.Result, error) {
	if u.namespace.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	if v.Satisfied && !(placement.SameDivision(v.Division, stamp.DivisionOf(u.placement)) && placement.SameOverrides(v.Overrides, stamp.OverridesOf(u.placement)) &&
		placement.SameRollout(v.Rollout, stamp.RolloutOf(u.placement))) {
		return c.redivide(ctx, u)
	}
	c.undivided.end(u.key)
	if stamp.DivisionOf(u.placement) == nil && !c.anyRanged(u) {
		return controller.Result{}, nil
	}
	objects, err := c.divisible(ctx, u)
	if err != nil {
		return controller.Result{}, err
	}
	var behind []stamped
	rest, scalersBehind := objects[:0:0], false
	for _, o := range objects {
		if !o.Behind(u.key.Cluster) {
			rest = append(rest, o)
			continue
		}
		behind = append(behind, stamped{resource: o.Kind.GroupVersionResource(), kind: o.Kind, object: partial(o.Logical)})
		scalersBehind = scalersBehind || stamp.IsAutoscaler(o.Kind)
	}
	for _, o := range rest {
		if stamp.Held(o.Logical) && !scalersBehind { // they are to want as many as take over, first
			err = c.release(ctx, u, o, objects)
		} else if stamp.WaitsAlone(o.Kind, o.Wanted(), o.Logical) {
			u.kept = append(u.kept, keepsAlone(o))
		}
		if err != nil {
			return controller.Result{}, err
		}
	}
	more, err := c.restampSome(ctx, round{u.key, "divided"}, behind)
	if len(u.kept) > 0 {
		more = sooner(more, controller.Result{RequeueAfter: moveInterval})
	}
	return more, err
}

// redivide writes how replicas are divided, and what changes of copies, into the decision, once
// nothing was edited for a moment, as a review says it: that reads the policies from the
// database.
func (c *Controller) redivide(ctx context.Context, u *unit) (controller.Result, error) {
	now := c.Clock.Now()
	if left := settleDelay - now.Sub(c.undivided.since(u.key, now)); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	c.undivided.end(u.key)
	review, err := c.review(ctx, u, placementv1alpha1.PlacementReviewSpec{})
	if err != nil {
		return controller.Result{}, err
	}
	redivided := !placement.SameDivision(review.Division, stamp.DivisionOf(u.placement))
	overridden := !placement.SameOverrides(review.Overrides, stamp.OverridesOf(u.placement))
	if !slices.Equal(review.PhysicalClusters, stamp.Decided(u.placement).Names()) || !redivided && !overridden && placement.SameRollout(review.Rollout, stamp.RolloutOf(u.placement)) {
		return controller.Result{}, nil // the informers were behind
	}
	p := u.placement.DeepCopy()
	d := p.Spec.Decision
	d.Overrides, d.Rollout, d.Policies = review.Overrides, review.Rollout, review.Policies
	if redivided {
		d.Division = review.Division
	}
	if _, err := c.Client.PlacementV1alpha1().Placements(p.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil {
		return controller.Result{}, fmt.Errorf("writing what holds for each physical cluster: %w", err)
	}
	if redivided {
		message := "each physical cluster has all replicas"
		if review.Division != nil {
			message = fmt.Sprintf("replicas are divided by %s over %s", strings.ToLower(string(review.Division.By)), strings.Join(review.PhysicalClusters, ", "))
		}
		if err := c.record(ctx, normal(p, "Divided", message, now)); err != nil {
			return begun, err
		}
	}
	if !overridden {
		return begun, nil
	}
	return begun, c.record(ctx, normal(p, "Overridden", overridesMessage(review.Overrides), now))
}

// overridesMessage says which overrides hold, by the first few.
func overridesMessage(list []placementv1alpha1.DecidedOverride) string {
	if len(list) == 0 {
		return "no override holds any more"
	}
	var out []string
	for _, o := range list[:min(len(list), maxWaits)] {
		out = append(out, o.Name+" on "+strings.Join(o.PhysicalClusters, ", "))
	}
	return "copies are changed by " + strings.Join(out, "; ")
}

// divisible reads, from the watch cache, the objects of a unit that are divided.
//
// Without a division these are StatefulSets that had one: what stays gets the ranges of what goes.
func (c *Controller) divisible(ctx context.Context, u *unit) ([]transition.Object, error) {
	var out []transition.Object
	others, asks, divides := []stamp.Other{}, false, stamp.DivisionOf(u.placement) != nil
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		if !kind.Divisible() && !stamp.MayBeOther(kind) || !divides && kind.Semantics != workload.StatefulSetSemantics {
			continue
		}
		list, err := c.objectsOf(ctx, kind, u, cached)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			if stamp.MayBeOther(kind) {
				others = append(others, stamp.Other{Kind: kind, Unstructured: o})
			}
			names, known := u.unitsOf(kind, o)
			if !kind.Divisible() || !known || !u.mine(names) || u.waits(kind, o, names) || !stamp.HasTargets(o) || stamp.Mirrored(o) || o.GetDeletionTimestamp() != nil || !divides && !stamp.Ranged(o) {
				continue
			}
			asks = asks || stamp.IsAboutOthers(kind)
			out = append(out, transition.Object{Kind: kind, Logical: o, Unit: u.merge(names), Division: u.division(names), Overrides: u.overrides(names), Unrecorded: u.unrecorded(kind, o, names)})
		}
	}
	if asks {
		wish(out, others)
	}
	if divides {
		scalers := stamp.ScalersOf(others)
		for i := range out {
			out[i].Scalers = scalers
		}
	}
	return out, nil
}

// anyRanged says that a StatefulSet of the namespace is divided by ordinals, as informers have it.
func (c *Controller) anyRanged(u *unit) bool {
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		if kind.Semantics != workload.StatefulSetSemantics {
			continue
		}
		informer := placed.Of(c.Objects, kind)
		if informer != nil && slices.ContainsFunc(informer.ListNamespace(u.key.Cluster, u.key.Namespace), func(o *metav1.PartialObjectMetadata) bool { return stamp.Ranged(o) }) {
			return true
		}
	}
	return false
}

// wish notes what is wanted of objects that are about others.
func wish(objects []transition.Object, others []stamp.Other) {
	for i, o := range objects {
		if stamp.IsAboutOthers(o.Kind) {
			objects[i].Wish = stamp.WishOf(o.Kind, o.Logical.Object, others)
		}
	}
}

func partial(o *unstructured.Unstructured) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.Name, out.Namespace = o.GetName(), o.GetNamespace()
	return out
}

// dividedCondition says whether replicas are where they are divided to; nil if they are not
// divided.
func (u *unit) dividedCondition() *metav1.Condition {
	division := stamp.DivisionOf(u.placement)
	if division == nil {
		return nil
	}
	out := &metav1.Condition{
		Type: placementv1alpha1.ConditionDivided, Status: metav1.ConditionTrue, Reason: "Divided",
		Message: "replicas are divided by " + strings.ToLower(string(division.By)),
	}
	if len(u.kept) > 0 {
		slices.Sort(u.kept)
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, "Waiting", strings.Join(u.kept[:min(len(u.kept), maxWaits)], "; ")
	}
	return out
}
