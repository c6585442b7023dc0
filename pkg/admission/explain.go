package admission

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// explain writes the reasons into the status of the placement, if they differ.
// The placement controller writes the rest of the status at the same time.
func (d *decider) explain(ctx context.Context, q question, p *placementv1alpha1.Placement, decision placement.Decision) error {
	return d.say(ctx, q, p, decision, scheduled(decision))
}

func (d *decider) say(ctx context.Context, q question, p *placementv1alpha1.Placement, decision placement.Decision, scheduled metav1.Condition) error {
	client := d.client.PlacementV1alpha1().Placements(q.namespace.Name)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !decision.Possible() && p.Spec.Decision != nil {
			return nil // somebody decided in the meantime
		}
		changed := p.DeepCopy()
		changed.Status.Rejected, changed.Status.SchedulerName = decision.RejectedAPI(), decision.Scheduler
		scheduled.ObservedGeneration = changed.Generation
		meta.SetStatusCondition(&changed.Status.Conditions, scheduled)
		if placement.EqualStatus(p.Status, changed.Status) {
			return nil
		}
		_, err := client.UpdateStatus(at(ctx, q.cluster), changed, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			if latest, getErr := client.Get(at(ctx, q.cluster), p.Name, metav1.GetOptions{}); getErr == nil {
				p = latest
			}
		}
		return err
	})
}

func scheduled(d placement.Decision) metav1.Condition {
	c := metav1.Condition{Type: placementv1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: "Decided", Message: d.Message()}
	switch {
	case d.Possible():
	case d.Scheduler != "":
		c.Status, c.Reason = metav1.ConditionFalse, placementv1alpha1.ReasonWaitsForScheduler
	default:
		c.Status, c.Reason = metav1.ConditionFalse, "NoPhysicalClusterFits"
	}
	return c
}
