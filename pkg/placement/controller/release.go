package controller

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// release gives up what an object keeps beyond its shares as far as others have taken it
// over, or grants what it waits for. What the informers say is enough to wait; before anything
// is changed, the Copies, the object and what Services reach are read from the database.
func (c *Controller) release(ctx context.Context, u *unit, o transition.Object, objects []transition.Object) error {
	runs := o
	if o.Kind.Semantics == workload.AutoscalerSemantics {
		if scaled := scaledOf(o, objects); scaled != nil { // else nothing runs of which any could be lost
			runs = *scaled
		}
	}
	next, why, err := c.released(ctx, u, o, o.Logical, runs, cached)
	if err != nil {
		return err
	}
	if stamp.Equal(next, stamp.TargetsOf(o.Logical.GetAnnotations())) {
		u.kept = append(u.kept, keeps(o, why))
		return nil
	}
	read, err := c.Dynamic.Resource(o.Kind.GroupVersionResource()).Namespace(u.key.Namespace).Get(ctx, o.Logical.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", o.Kind.Kind, o.Logical.GetName(), err)
	}
	if runs.Logical == o.Logical {
		runs.Logical = read
	}
	if next, why, err = c.released(ctx, u, o, read, runs, live); err != nil {
		return err
	}
	patch := stamp.Restamp(read, func(obj metav1.Object) { stamp.Set(obj, next) })
	if patch == nil || read.GetUID() != o.Logical.GetUID() {
		u.kept = append(u.kept, keeps(o, why))
		return nil
	}
	_, err = c.Metadata.Resource(o.Kind.GroupVersionResource()).Namespace(u.key.Namespace).
		Patch(ctx, read.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("giving up replicas of %s %s: %w", o.Kind.Kind, read.GetName(), err)
	}
	if slices.ContainsFunc(next.Names(), func(name string) bool {
		return next[name].Share != nil || next[name].Ordinals != nil && next[name].Ordinals.Held != nil
	}) {
		u.kept = append(u.kept, keeps(o, why))
	}
	return nil
}

// scaledOf is what an autoscaler scales; nil if that is not there.
func scaledOf(scaler transition.Object, objects []transition.Object) *transition.Object {
	group, kind, name := workload.Scaled(scaler.Kind, scaler.Logical.Object)
	for i, o := range objects {
		if o.Kind.Group == group && o.Kind.Kind == kind && o.Logical.GetName() == name {
			return &objects[i]
		}
	}
	return nil
}

// released are the targets of an object, as it was read, by what is said to be available of
// what runs of it. why names the Service that waits for endpoints, if it is only that.
func (c *Controller) released(ctx context.Context, u *unit, o transition.Object, read *unstructured.Unstructured, runs transition.Object, from string) (_ placementv1alpha1.Targets, why string, _ error) {
	current, wish := stamp.TargetsOf(read.GetAnnotations()), o.Wanted()
	if wish == nil {
		return current, "", nil
	}
	if wish.Ordinals != nil {
		next, err := c.vacated(ctx, u, o, current, from)
		return next, "", err
	}
	if wish.Ceiling || wish.Weights != nil {
		all, err := c.copiesOf(ctx, u, from)
		if err != nil {
			return nil, "", err
		}
		copies := all[string(runs.Logical.GetUID())]
		if wish.Ceiling {
			return stamp.Granted(current, wish.Replicas, by(copies, transition.Permitted)), "", nil
		}
		wants := by(copies, func(one *placementv1alpha1.Copy) (n int32, known bool) {
			n, _, known = transition.Protected(one)
			return
		})
		return stamp.Yielded(current, wish.Replicas, wants, by(copies, func(one *placementv1alpha1.Copy) (n int32, known bool) {
			_, n, known = transition.Protected(one)
			return
		})), "", nil
	}
	s, err := c.leads(ctx, u, from)
	if err != nil {
		return nil, "", err
	}
	// Last: what has just become available is to count.
	all, err := c.copiesOf(ctx, u, from)
	if err != nil {
		return nil, "", err
	}
	for i := range s.Objects {
		s.Objects[i].Copies = all[string(s.Objects[i].Logical.GetUID())]
	}
	runs.Copies = all[string(runs.Logical.GetUID())]
	var shrink []string
	for name, target := range current {
		if target.Keeps() && target.Share != nil && target.Replicas != nil && *target.Share < *target.Replicas {
			shrink = append(shrink, name)
		}
	}
	available := by(runs.Copies, transition.Available)
	reached, service := s.Reached(runs, shrink)
	next := c.Release(current, wish.Replicas, available, runs.TakenOver(reached))
	if service != "" && !stamp.Equal(next, c.Release(current, wish.Replicas, available, runs.TakenOver(available))) {
		why = service
	}
	return next, why, nil
}

// leads reads the Services of the namespace, what makes the pods that they may select, in
// whichever unit, and the endpoints that are ready.
func (c *Controller) leads(ctx context.Context, u *unit, from string) (s transition.State, _ error) {
	var makers []transition.Object
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		service := kind.Semantics == workload.ServiceSemantics
		if !service && (kind.Role != workload.Placed || kind.PodTemplate == nil && len(kind.PodTemplates) == 0) {
			continue
		}
		list, err := c.objectsOf(ctx, kind, u, from)
		if err != nil {
			return s, err
		}
		for _, o := range list {
			if one := (transition.Object{Kind: kind, Logical: o}); service {
				s.Objects = append(s.Objects, one)
			} else {
				makers = append(makers, one)
			}
		}
	}
	if len(s.Objects) == 0 {
		return s, nil
	}
	var err error
	s.Objects = append(s.Objects, makers...)
	s.Endpoints, err = c.endpoints(ctx, u, from)
	return s, err
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

// vacated are the targets of a StatefulSet, without the ordinals of which no pods are left.
func (c *Controller) vacated(ctx context.Context, u *unit, o transition.Object, current placementv1alpha1.Targets, from string) (placementv1alpha1.Targets, error) {
	all, err := c.copiesOf(ctx, u, from)
	if err != nil {
		return nil, err
	}
	return stamp.Vacated(current, ranges(all[string(o.Logical.GetUID())])), nil
}

// ranges are the ordinals that may run, as Copies say, by target.
func ranges(copies map[string]*placementv1alpha1.Copy) map[string]placementv1alpha1.CopyOrdinals {
	out := map[string]placementv1alpha1.CopyOrdinals{}
	for name, one := range copies {
		if one != nil && one.Status.State != placementv1alpha1.CopyRemoved && one.Status.Ordinals.Revision > 0 {
			out[name] = one.Status.Ordinals
		}
	}
	return out
}

// keepsOrdinals says, for people, where ordinals may run that are not to run there any more.
func keepsOrdinals(o transition.Object) string {
	targets := stamp.TargetsOf(o.Logical.GetAnnotations())
	var may, less []string
	for _, name := range targets.Names() {
		t := targets[name]
		if t.Share != nil && t.Replicas != nil && t.Keeps() {
			less = append(less, fmt.Sprintf("for %d on %s", *t.Share-*t.Replicas, name))
		}
		switch held := stamp.HeldOn(t); {
		case held.End == math.MaxInt32:
			may = append(may, name+" may run any")
		case held.End > held.Start:
			may = append(may, fmt.Sprintf("%s may run %d to %d", name, held.Start, held.End-1))
		}
	}
	if len(may) == 0 {
		may = []string{"others have them"}
	}
	if len(less) == 0 {
		return fmt.Sprintf("%s: %s until its syncer has seen the pods end", o, strings.Join(may, ", "))
	}
	return fmt.Sprintf("%s waits %s: %s, until its syncer has seen the pods end", o, strings.Join(less, ", "), strings.Join(may, ", "))
}

// keeps says, for people, where an object keeps replicas; service waits for the endpoints of
// others, if it is only that.
func keeps(o transition.Object, service string) string {
	if o.Kind.Semantics == workload.StatefulSetSemantics {
		return keepsOrdinals(o)
	}
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
	until := "others are available"
	if service != "" {
		until = "Service " + service + " leads to others"
	}
	return fmt.Sprintf("%s keeps %s until %s", o, strings.Join(more, ", "), until)
}

// keepsAlone says, for people, where something waits to run as a whole.
func keepsAlone(o transition.Object) string {
	targets := stamp.TargetsOf(o.Logical.GetAnnotations())
	var waits, removes []string
	for _, name := range targets.Names() {
		switch targets[name].State {
		case placementv1alpha1.TargetStateWaiting:
			waits = append(waits, name)
		case placementv1alpha1.TargetStateRemoving:
			removes = append(removes, name)
		}
	}
	if len(waits) == 0 {
		return fmt.Sprintf("%s is removed from %s, as it runs in one place", o, strings.Join(removes, ", "))
	}
	return fmt.Sprintf("%s begins on %s once it is gone from %s", o, strings.Join(waits, ", "), strings.Join(removes, ", "))
}
