package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement/rollout"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// stagedInterval is how often a change that is under way is looked at without an event.
const stagedInterval = 30 * time.Second

// rollOut brings a change that is under way to the next wave. What the watch caches say is
// enough to wait; before a wave gets it, all is read from the database.
func (c *Controller) rollOut(ctx context.Context, u *unit) (controller.Result, error) {
	if !u.staged || u.namespace.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	step, objects, err := c.nextWave(ctx, u, cached)
	if err != nil {
		return controller.Result{}, err
	}
	if len(step.Open) > 0 || step.Done {
		if step, objects, err = c.nextWave(ctx, u, live); err != nil {
			return controller.Result{}, err
		}
	}
	u.step = step
	if len(step.Open) == 0 && !step.Done {
		if step.Status == nil {
			return controller.Result{}, nil
		}
		return sooner(controller.Result{RequeueAfter: step.Again}, controller.Result{RequeueAfter: stagedInterval}), nil
	}
	for _, o := range objects {
		if err := c.open(ctx, u, o, step); err != nil {
			return controller.Result{}, err
		}
	}
	message := step.Message
	if step.Done {
		message = "the change is complete: " + message
	}
	return controller.Result{RequeueAfter: moveInterval}, c.record(ctx, normal(u.placement, "RolledOut", step.Status.Revision+": "+message, c.Clock.Now()))
}

// open has targets of an object get the change, or ends it. The patch is for the version that
// was decided upon: a change in between is a conflict.
func (c *Controller) open(ctx context.Context, u *unit, o transition.Object, step rollout.Step) error {
	if !o.Kind.Staged || !stamp.Staged(o.Logical) {
		return nil
	}
	patch := stamp.Restamp(o.Logical, func(obj metav1.Object) {
		if step.Done {
			stamp.Complete(obj)
		} else {
			stamp.Open(obj, step.Open)
		}
	})
	if patch == nil {
		return nil
	}
	_, err := c.Metadata.Resource(o.Kind.GroupVersionResource()).Namespace(u.key.Namespace).
		Patch(ctx, o.Logical.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("rolling out %s: %w", o, err)
	}
	return nil
}

// nextWave says what follows, with the objects that it is about: what others refer to comes
// first.
func (c *Controller) nextWave(ctx context.Context, u *unit, from string) (rollout.Step, []transition.Object, error) {
	placement := u.placement
	if from == live {
		var err error
		if placement, err = c.Client.PlacementV1alpha1().Placements(u.key.Namespace).Get(ctx, u.key.Name, metav1.GetOptions{}); err != nil {
			return rollout.Step{}, nil, fmt.Errorf("reading the placement: %w", err)
		}
		if placement.UID != u.placement.UID || placement.Generation != u.placement.Generation {
			return rollout.Step{}, nil, apierrors.NewConflict(placementv1alpha1.Resource("placements"), u.key.Name, errors.New("it was decided anew"))
		}
	}
	members, _, err := c.members(ctx, u, from)
	if err != nil {
		return rollout.Step{}, nil, err
	}
	copies, err := c.copiesOf(ctx, u, from)
	if err != nil {
		return rollout.Step{}, nil, err
	}
	s := rollout.State{
		Rollout: stamp.RolloutOf(placement), Decided: stamp.Decided(placement).Names(), NotReady: map[string]string{},
		Status: placement.Status.Rollout, Healthy: c.healthySince(placement), Approved: c.approvedOf(u), Now: c.Clock.Now(),
	}
	for _, o := range members {
		if !o.Kind.Staged || !stamp.HasTargets(o.Logical) || stamp.Mirrored(o.Logical) || o.Kind.Role == workload.Referenced && !u.leads() {
			continue
		}
		o.Copies = copies[string(o.Logical.GetUID())]
		s.Objects = append(s.Objects, o)
		for _, name := range stamp.Kept(o.Logical) {
			s.NotReady[name] = c.notReady(name)
		}
	}
	slices.SortStableFunc(s.Objects, func(a, b transition.Object) int { return first(b) - first(a) })
	return rollout.Next(s), s.Objects, nil
}

func first(o transition.Object) int {
	if o.Kind.Role == workload.Referenced {
		return 1
	}
	return 0
}

// leads says that ConfigMaps and Secrets, which are in no unit, go with this one: it is the first
// by name that has waves; or the first, if none has any more.
func (u *unit) leads() bool {
	all := slices.DeleteFunc(u.inOrder(), func(p *placementv1alpha1.Placement) bool { return p.Spec.Decision == nil })
	for _, p := range all {
		if stamp.RolloutOf(p) != nil {
			return p.Name == u.own.Name
		}
	}
	return len(all) > 0 && all[0].Name == u.own.Name
}

// approvedOf is which wave of a unit a person approved.
func (c *Controller) approvedOf(u *unit) string {
	if u.key.Name == placementv1alpha1.NamespaceUnit {
		return u.namespace.Annotations[placementv1alpha1.ApproveRolloutAnnotation]
	}
	policy, ok := c.NamespacePolicies.Get(u.key)
	if !ok {
		return ""
	}
	return policy.Annotations[placementv1alpha1.ApproveRolloutAnnotation]
}

// rolledOut notes in a status how far a change is.
//
//	the unit                       then
//	is on its way                  what is under way waits for that, and soaks anew
//	has a change under way         what it waits for
//	has waves, and no change       RolledOut
//	has neither                    nothing is said
func (u *unit) rolledOut(status *placementv1alpha1.PlacementStatus) *metav1.Condition {
	out := &metav1.Condition{Type: placementv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse}
	switch {
	case u.staged && u.placement.Spec.Transition != nil:
		if status.Rollout = status.Rollout.DeepCopy(); status.Rollout != nil {
			status.Rollout.HealthySince = nil
		}
		out.Reason, out.Message = placementv1alpha1.ReasonMoves, "the next wave waits until the unit has moved"
	case u.step.Status != nil && !u.step.Done:
		status.Rollout = u.step.Status
		out.Reason, out.Message = u.step.Reason, u.step.Message
		switch {
		case out.Reason == "":
			out.Reason = placementv1alpha1.ReasonBegins
		case out.Reason == placementv1alpha1.ReasonHealthUnknown:
			out.Status = metav1.ConditionUnknown
		}
	default:
		status.Rollout = nil
		if waves := stamp.RolloutOf(u.placement); waves == nil || len(waves.Waves) < 2 {
			return nil
		}
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, placementv1alpha1.ReasonRolledOut, "all physical clusters have the same"
	}
	return out
}

// turned says that what is stored about a rollout changes: since when it is healthy counts.
func turned(a, b placementv1alpha1.PlacementStatus) bool {
	x, y := a.Rollout, b.Rollout
	return (x == nil) != (y == nil) || x != nil && (x.Revision != y.Revision || x.Wave != y.Wave || !x.HealthySince.Equal(y.HealthySince))
}

// rolling says that a change is under way in the namespace of an object.
func (c *Controller) rolling(key controller.Request) bool {
	return slices.ContainsFunc(c.Placements.ListNamespace(key.Cluster, key.Namespace), func(p *placementv1alpha1.Placement) bool { return p.Status.Rollout != nil })
}

// recordStop writes an event when a change stops, or waits for a person.
func (c *Controller) recordStop(ctx context.Context, p *placementv1alpha1.Placement) error {
	condition := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionRolledOut)
	if condition == nil || p.Status.Rollout == nil {
		return nil
	}
	switch condition.Reason {
	case placementv1alpha1.ReasonUnhealthy, placementv1alpha1.ReasonHealthUnknown, placementv1alpha1.ReasonNeedsApproval:
		return c.record(ctx, normal(p, "RolloutWaits", condition.Message, c.Clock.Now()))
	}
	return nil
}
