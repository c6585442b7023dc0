package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
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
//	is divided                           keeps more than its share      what others have taken over is
//	                                     somewhere, or waits for more   given up, see stamp.Released, or
//	                                                                    granted, see stamp.Granted
func (c *Controller) share(ctx context.Context, u *unit, v verdict) (controller.Result, error) {
	if u.namespace.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	if v.Satisfied && !(placement.SameDivision(v.Division, stamp.DivisionOf(u.placement)) && placement.SameOverrides(v.Overrides, stamp.OverridesOf(u.placement))) {
		return c.redivide(ctx, u)
	}
	c.undivided.Remove(u.key)
	if stamp.DivisionOf(u.placement) == nil {
		return controller.Result{}, nil
	}
	objects, err := c.divisible(ctx, u)
	if err != nil {
		return controller.Result{}, err
	}
	for _, o := range objects {
		if o.Behind(u.key.Cluster) {
			err = c.restamp(ctx, stamped{resource: o.Kind.GroupVersionResource(), kind: o.Kind, object: partial(o.Logical)})
		} else if stamp.Held(o.Logical) {
			err = c.release(ctx, u, o, objects)
		}
		if err != nil {
			return controller.Result{}, err
		}
	}
	if len(u.kept) > 0 {
		return controller.Result{RequeueAfter: moveInterval}, nil
	}
	return controller.Result{}, nil
}

// redivide writes how replicas are divided, and what changes of copies, into the decision, once
// nothing was edited for a moment, as a review says it: that reads the policies from the
// database.
func (c *Controller) redivide(ctx context.Context, u *unit) (controller.Result, error) {
	now := c.Clock.Now()
	since, ok := c.undivided.Get(u.key)
	if !ok {
		since = now
		c.undivided.Add(u.key, now, time.Hour)
	}
	if left := settleDelay - now.Sub(since.(time.Time)); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	c.undivided.Remove(u.key)
	review, err := c.review(ctx, u, placementv1alpha1.PlacementReviewSpec{})
	if err != nil {
		return controller.Result{}, err
	}
	redivided := !placement.SameDivision(review.Division, stamp.DivisionOf(u.placement))
	overridden := !placement.SameOverrides(review.Overrides, stamp.OverridesOf(u.placement))
	if !slices.Equal(review.PhysicalClusters, stamp.Decided(u.placement).Names()) || !redivided && !overridden {
		return controller.Result{}, nil // the informers were behind
	}
	p := u.placement.DeepCopy()
	d := p.Spec.Decision
	d.Overrides, d.Policies = review.Overrides, review.Policies
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
func (c *Controller) divisible(ctx context.Context, u *unit) ([]transition.Object, error) {
	var out []transition.Object
	others, asks := []stamp.Other{}, false
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		if !kind.Divisible() && !stamp.MayBeOther(kind) {
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
			if !kind.Divisible() || !known || !u.mine(names) || u.waits(kind, o, names) || !stamp.HasTargets(o) || stamp.Mirrored(o) || o.GetDeletionTimestamp() != nil {
				continue
			}
			asks = asks || stamp.IsAboutOthers(kind)
			out = append(out, transition.Object{Kind: kind, Logical: o, Unit: u.merge(names), Division: u.division(names), Overrides: u.overrides(names), Unrecorded: u.unrecorded(kind, o, names)})
		}
	}
	if asks {
		wish(out, others)
	}
	return out, nil
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

// release gives up what an object keeps beyond its shares as far as others have taken it
// over, or grants what it waits for. What the informers say is enough to wait; before anything
// is changed, the Copies and the object are read from the database.
func (c *Controller) release(ctx context.Context, u *unit, o transition.Object, objects []transition.Object) error {
	seen := o.Logical
	if o.Kind.Semantics == workload.AutoscalerSemantics {
		if seen = scaledOf(o, objects); seen == nil { // nothing runs of which any could be lost
			seen = o.Logical
		}
	}
	next := c.released(o, o.Logical, c.copiesByTarget(u, seen))
	if stamp.Equal(next, stamp.TargetsOf(o.Logical.GetAnnotations())) {
		u.kept = append(u.kept, keeps(o))
		return nil
	}
	read, err := c.Dynamic.Resource(o.Kind.GroupVersionResource()).Namespace(u.key.Namespace).Get(ctx, o.Logical.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", o.Kind.Kind, o.Logical.GetName(), err)
	}
	copies, err := c.copiesOf(ctx, u, live)
	if err != nil {
		return err
	}
	next = c.released(o, read, copies[string(seen.GetUID())])
	patch := stamp.Restamp(read, func(obj metav1.Object) { stamp.Set(obj, next) })
	if patch == nil || read.GetUID() != o.Logical.GetUID() {
		u.kept = append(u.kept, keeps(o))
		return nil
	}
	_, err = c.Metadata.Resource(o.Kind.GroupVersionResource()).Namespace(u.key.Namespace).
		Patch(ctx, read.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("giving up replicas of %s %s: %w", o.Kind.Kind, read.GetName(), err)
	}
	if slices.ContainsFunc(next.Names(), func(name string) bool { return next[name].Share != nil }) {
		u.kept = append(u.kept, keeps(o))
	}
	return nil
}

// scaledOf is what an autoscaler scales; nil if that is not there.
func scaledOf(scaler transition.Object, objects []transition.Object) *unstructured.Unstructured {
	group, kind, name := workload.Scaled(scaler.Kind, scaler.Logical.Object)
	for _, o := range objects {
		if o.Kind.Group == group && o.Kind.Kind == kind && o.Logical.GetName() == name {
			return o.Logical
		}
	}
	return nil
}

func (c *Controller) copiesByTarget(u *unit, o metav1.Object) map[string]*placementv1alpha1.Copy {
	out := map[string]*placementv1alpha1.Copy{}
	for _, one := range c.Copies.ListNamespace(u.key.Cluster, u.key.Namespace) {
		if one.Spec.Object.UID == o.GetUID() {
			out[one.Spec.PhysicalCluster] = one
		}
	}
	return out
}

// released are the targets of an object, as it was read, by what Copies say is available.
func (c *Controller) released(o transition.Object, read *unstructured.Unstructured, copies map[string]*placementv1alpha1.Copy) placementv1alpha1.Targets {
	current, wish := stamp.TargetsOf(read.GetAnnotations()), o.Wanted()
	if wish == nil {
		return current
	}
	switch {
	case wish.Ceiling:
		return stamp.Granted(current, wish.Replicas, by(copies, transition.Permitted))
	case wish.Weights != nil:
		wants := by(copies, func(one *placementv1alpha1.Copy) (n int32, known bool) {
			n, _, known = transition.Protected(one)
			return
		})
		return stamp.Yielded(current, wish.Replicas, wants, by(copies, func(one *placementv1alpha1.Copy) (n int32, known bool) {
			_, n, known = transition.Protected(one)
			return
		}))
	}
	return c.Release(current, wish.Replicas, by(copies, transition.Available))
}

// by is what Copies say, by target.
func by(copies map[string]*placementv1alpha1.Copy, says func(*placementv1alpha1.Copy) (int32, bool)) map[string]int32 {
	known := map[string]int32{}
	for name, one := range copies {
		if n, ok := says(one); ok {
			known[name] = n
		}
	}
	return known
}

// keeps says, for people, where an object keeps replicas.
func keeps(o transition.Object) string {
	var more, less []string
	targets := stamp.TargetsOf(o.Logical.GetAnnotations())
	for _, name := range targets.Names() {
		switch t := targets[name]; {
		case !t.Keeps() || t.Share == nil || t.Replicas == nil:
		case *t.Share < *t.Replicas:
			more = append(more, fmt.Sprintf("%d on %s", *t.Replicas-*t.Share, name))
		default:
			less = append(less, fmt.Sprintf("%d on %s", *t.Share-*t.Replicas, name))
		}
	}
	if len(less) > 0 {
		return fmt.Sprintf("%s waits for %s until others have less", o, strings.Join(less, ", "))
	}
	return fmt.Sprintf("%s keeps %s until others are available", o, strings.Join(more, ", "))
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
