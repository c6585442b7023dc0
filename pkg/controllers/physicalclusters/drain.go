package physicalclusters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/pace"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// maxBlockers bounds the list of a drain.
const maxBlockers = 20

// drain says how far a drain is. What the informers have is good for progress; that
// nothing is left is asked of the server, and of the syncer.
func (c *Controller) drain(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) error {
	if !pc.Spec.Drain.Requested {
		pc.Status.Drain = nil
		meta.RemoveStatusCondition(&pc.Status.Conditions, fleetv1alpha1.ConditionDrained)
		return nil
	}
	now := c.Clock.Now()
	status := drainOf(pc.Name, c.Placements.List(), now)
	status.Copies = int32(copyindex.CountOn(c.Copies, pc.Name))
	if pc.Status.Drain != nil {
		status.Seen = pc.Status.Drain.Seen
	}
	goOn(pc.Status.Drain, status, now)
	status.EstimatedSeconds = estimate(leavable(status, placement.Drains(pc, now)), status.Ended, now.Sub(status.StartedAt.Time))
	pc.Status.Drain = status
	asked := false
	if status.Namespaces == 0 && status.Copies == 0 {
		used, err := c.uses(ctx, pc.Name)
		if err != nil {
			return err
		}
		asked = used == usage{}
	}
	condition := drained(pc, asked, now)
	condition.LastTransitionTime = metav1.NewTime(now)
	before := meta.FindStatusCondition(pc.Status.Conditions, condition.Type)
	switch {
	case before == nil, before.Reason != condition.Reason && !(verifies(before.Reason) && verifies(condition.Reason)):
		// A look from before is no evidence. What is there from now on is: a syncer writes what it finds
		// into the status that it read before it looked, and nobody compares the clocks of two machines.
		status.Seen = nil
	default:
		condition.LastTransitionTime = before.LastTransitionTime
	}
	meta.RemoveStatusCondition(&pc.Status.Conditions, condition.Type)
	meta.SetStatusCondition(&pc.Status.Conditions, condition)
	return nil
}

// verifies says that a reason is one from which on what the syncer finds counts.
func verifies(reason string) bool {
	return reason == reasonVerifying || reason == reasonLeft || reason == reasonDrained
}

// drainOf counts what is placed on a physical cluster, or leaves it. What leaves once everything else has waits in the
// queue, and is blocked as all else that is left is: nobody knows for how long.
func drainOf(name string, placements []*placementv1alpha1.Placement, now time.Time) *fleetv1alpha1.DrainStatus {
	status, last := &fleetv1alpha1.DrainStatus{}, []fleetv1alpha1.DrainBlocker(nil)
	for _, p := range placements {
		part, ok := stamp.PartOn(p, name)
		if !ok {
			continue
		}
		status.Namespaces++
		moving := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
		switch {
		case part != stamp.PartStays && part != stamp.PartArrives:
			status.Moving++
			if t := p.Spec.Transition; t.Cause != placementv1alpha1.CauseLost && pace.NotArrived(t, now) {
				status.Stuck++
			}
		case moving == nil || moving.Status != metav1.ConditionFalse:
		case moving.Reason == placementv1alpha1.ReasonQueued:
			status.Queued++
		case moving.Reason == placementv1alpha1.ReasonLeavesLast:
			status.Queued++
			last = append(last, blocker(p, moving))
		default:
			status.Blockers = append(status.Blockers, blocker(p, moving))
		}
	}
	byName := func(a, b fleetv1alpha1.DrainBlocker) int {
		return cmp.Or(cmp.Compare(a.LogicalCluster, b.LogicalCluster), cmp.Compare(a.Namespace, b.Namespace))
	}
	slices.SortFunc(status.Blockers, byName)
	if n := len(status.Blockers); n > 0 && int(status.Namespaces) == n+len(last) {
		slices.SortFunc(last, byName)
		status.Blockers, status.Queued = append(status.Blockers, last...), 0
	}
	status.Blocked = int32(len(status.Blockers))
	status.Blockers = status.Blockers[:min(len(status.Blockers), maxBlockers)]
	return status
}

func blocker(p *placementv1alpha1.Placement, moving *metav1.Condition) fleetv1alpha1.DrainBlocker {
	return fleetv1alpha1.DrainBlocker{LogicalCluster: logicalcluster.From(p).String(), Namespace: p.Namespace, Reason: moving.Reason, Message: moving.Message}
}

// drained is the condition; asked says that the server, asked just now, has nothing on
// the physical cluster.
//
//	placed there  Copies  the syncer                                   then
//	some, and the deadline has passed and not all of them move         False, DeadlineExceeded
//	some          any     any                                          False, Draining; Blocked if none of them moves
//	none          some    any                                          False, Removing
//	none          none    is not known to be ready                     Unknown, Silent
//	none          none    has not looked since there was nothing       Unknown, Verifying
//	none          none    has, and found something                     False, Left
//	none          none    has, and found nothing                       True, Drained
func drained(pc *fleetv1alpha1.PhysicalCluster, asked bool, now time.Time) metav1.Condition {
	s := pc.Status.Drain
	c := metav1.Condition{Type: fleetv1alpha1.ConditionDrained, Status: metav1.ConditionFalse, ObservedGeneration: pc.Generation}
	before := meta.FindStatusCondition(pc.Status.Conditions, c.Type)
	verified := before != nil && verifies(before.Reason) && s.Seen != nil
	switch {
	case s.Namespaces > s.Moving && !placement.Drains(pc, now):
		c.Reason = fleetv1alpha1.ReasonDeadlineExceeded
		c.Message = fmt.Sprintf("the deadline %s has passed: %d namespaces have left, %d move, and %d stay; a later spec.drain.deadline moves these, too",
			pc.Spec.Drain.Deadline.UTC().Format(time.RFC3339), s.Ended, s.Moving, s.Namespaces-s.Moving)
	case s.Namespaces > 0 && s.Namespaces == s.Blocked && len(s.Blockers) > 0:
		c.Reason = "Blocked"
		c.Message = fmt.Sprintf("%d namespaces are on it and cannot move; the first is %s in logical cluster %s: %s",
			s.Namespaces, s.Blockers[0].Namespace, s.Blockers[0].LogicalCluster, s.Blockers[0].Message)
	case s.Namespaces > 0:
		c.Reason, c.Message = "Draining", fmt.Sprintf("%d namespaces are on it, %d of them move, %d wait for their turn, %d cannot", s.Namespaces, s.Moving, s.Queued, s.Blocked)
		if s.Stuck > 0 {
			c.Message += fmt.Sprintf("; %d of those that move have not become available where they go for %s, and as many as may move at a time stop the drain", s.Stuck, pace.SlotTime)
		}
	case s.Copies > 0 || !asked:
		c.Reason, c.Message = "Removing", fmt.Sprintf("no namespace is placed on it; %d copies are not known to be gone", s.Copies)
		if n := pc.Status.Orphans.Found; n > 0 {
			c.Message += fmt.Sprintf("; %d objects with our mark belong to nothing, and physical namespaces that they are in stay: see the Orphans in root", n)
		}
	case !meta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionReady):
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "Silent", "nothing is placed on it; its syncer cannot say whether something is left"
	case !verified:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reasonVerifying, "nothing is placed on it; its syncer is about to look whether something is left"
	case s.Seen.Objects > 0:
		c.Reason, c.Message = reasonLeft, fmt.Sprintf("nothing is placed on it, but %d objects with our mark are left (%s); see the Orphans in root", s.Seen.Objects, counts(s.Seen.Counts))
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, reasonDrained, fmt.Sprintf("nothing of this control plane is left on it, as %s found", s.Seen.By)
	}
	return c
}

// Reasons of the condition Drained from which on what the syncer finds counts.
const (
	reasonVerifying = "Verifying"
	reasonLeft      = "Left"
	reasonDrained   = "Drained"
)

func counts(list []fleetv1alpha1.ResourceCount) string {
	text := ""
	for i, c := range list {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", c.Count, c.Resource)
	}
	return text
}

// uses asks the server what names a physical cluster.
func (c *Controller) uses(ctx context.Context, name string) (usage, error) {
	all := scope.WithCluster(ctx, scope.Wildcard)
	copies, err := c.Client.PlacementV1alpha1().Copies(metav1.NamespaceAll).List(all, metav1.ListOptions{})
	if err != nil {
		return usage{}, fmt.Errorf("listing Copies: %w", err)
	}
	placements, err := c.Client.PlacementV1alpha1().Placements(metav1.NamespaceAll).List(all, metav1.ListOptions{})
	if err != nil {
		return usage{}, fmt.Errorf("listing Placements: %w", err)
	}
	return use(name, copies.Items, placements.Items), nil
}
