package placement

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Object is an object of a unit, as far as progress needs it.
type Object struct {
	UID     types.UID
	Targets placementv1alpha1.Targets
}

// Progress says how far the copies on one target are.
type Progress struct {
	// Wanted counts the objects that have a copy there, Synced those whose copy
	// is in place, Failed those that the target refused, Removing those whose
	// copy has to go.
	Wanted, Synced, Failed, Removing int
	// Problem is the message of a failed copy, the first by name.
	Problem string
}

// Progresses counts the copies of the objects of a unit by target.
func Progresses(objects []Object, copies []*placementv1alpha1.Copy) map[string]Progress {
	type key struct {
		object types.UID
		target string
	}
	byObject := make(map[key]*placementv1alpha1.Copy, len(copies))
	for _, c := range copies {
		byObject[key{c.Spec.Object.UID, c.Spec.PhysicalCluster}] = c
	}
	progress := map[string]Progress{}
	failed := map[string]string{}
	for _, o := range objects {
		for name, target := range o.Targets {
			p := progress[name]
			c := byObject[key{o.UID, name}]
			switch {
			case target.State == placementv1alpha1.TargetObserved, target.NoCopy():
				continue
			case target.State == placementv1alpha1.TargetStateRemoving:
				p.Removing++
			case c == nil:
				p.Wanted++
			case c.Status.State == placementv1alpha1.CopyFailed:
				p.Wanted++
				p.Failed++
				if first, ok := failed[name]; !ok || c.Name < first {
					failed[name] = c.Name
					p.Problem = fmt.Sprintf("%s %s: %s", c.Spec.Object.Kind, c.Spec.Object.Name, c.Status.Message)
				}
			case c.Status.State == placementv1alpha1.CopySynced:
				p.Wanted++
				p.Synced++
			default:
				p.Wanted++
			}
			progress[name] = p
		}
	}
	return progress
}

// Status is the status of a placement, updated with the progress on
// its targets. A target becomes Active once everything that is wanted there is
// in place, and stays it: a new object does not make it Starting again. What is
// known of the decision is kept. awaits is why a claim waits for a volume that it has on another
// target; empty: none does.
func Status(p *placementv1alpha1.Placement, progress map[string]Progress, awaits string, now time.Time) placementv1alpha1.PlacementStatus {
	status := *p.Status.DeepCopy()
	if p.Spec.Decision == nil {
		return status
	}
	targets := phases(p, progress)
	var arriving []string
	if t := p.Spec.Transition; t != nil && t.Phase == placementv1alpha1.TransitionStarting {
		arriving = t.To
	}
	old := map[string]placementv1alpha1.TargetStatus{}
	for _, t := range status.Targets {
		old[t.PhysicalCluster] = t
	}
	status.Targets = nil
	for name, phase := range targets {
		status.Targets = append(status.Targets, target(old[name], name, phase, arriving, progress[name], now))
	}
	slices.SortFunc(status.Targets, func(a, b placementv1alpha1.TargetStatus) int {
		return cmp.Compare(a.PhysicalCluster, b.PhysicalCluster)
	})

	if meta.FindStatusCondition(status.Conditions, placementv1alpha1.ConditionScheduled) == nil ||
		!meta.IsStatusConditionTrue(status.Conditions, placementv1alpha1.ConditionScheduled) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: placementv1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: "Decided",
			Message: "decided by " + cmp.Or(p.Spec.Decision.SchedulerName, "an unnamed scheduler"), ObservedGeneration: p.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	settled := settledCondition(progress, awaits)
	settled.ObservedGeneration = p.Generation
	settled.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&status.Conditions, settled)
	return status
}

// phases are those of the targets, before it is asked whether one that starts is Active.
func phases(p *placementv1alpha1.Placement, progress map[string]Progress) map[string]placementv1alpha1.TargetPhase {
	targets := map[string]placementv1alpha1.TargetPhase{}
	for name, at := range progress {
		if at.Removing > 0 && at.Wanted == 0 {
			targets[name] = placementv1alpha1.TargetRemoving
		}
	}
	for name, part := range stamp.UnitOf(p) {
		switch part {
		case stamp.PartStays, stamp.PartArrives:
			targets[name] = placementv1alpha1.TargetStarting
		case stamp.PartLeaves:
			targets[name] = placementv1alpha1.TargetActive
		case stamp.PartDrains:
			targets[name] = placementv1alpha1.TargetDraining
		case stamp.PartRemoves, stamp.PartHandsOver, stamp.PartClears:
			targets[name] = placementv1alpha1.TargetRemoving
		}
	}
	return targets
}

func target(old placementv1alpha1.TargetStatus, name string, phase placementv1alpha1.TargetPhase, arriving []string, p Progress, now time.Time) placementv1alpha1.TargetStatus {
	arrives := slices.Contains(arriving, name)
	if phase == placementv1alpha1.TargetStarting && !arrives &&
		(old.Phase == placementv1alpha1.TargetActive || p.Wanted > 0 && p.Synced == p.Wanted) {
		phase = placementv1alpha1.TargetActive
	}
	t := placementv1alpha1.TargetStatus{PhysicalCluster: name, Phase: phase, Since: old.Since}
	if old.Phase != phase {
		t.Since = metav1.NewTime(now)
	}
	switch {
	case phase == placementv1alpha1.TargetStarting && p.Failed > 0:
		t.Reason = "CopiesFailed"
	case phase == placementv1alpha1.TargetStarting && arrives && p.Synced == p.Wanted:
		t.Reason = "NotAvailable"
	case phase == placementv1alpha1.TargetStarting:
		t.Reason = "CopiesPending"
	case phase == placementv1alpha1.TargetRemoving:
		t.Reason = "CopiesRemoving"
	}
	return t
}

// settledCondition says whether all is where it is to be.
//
//	copies                 a claim waits for its volume   Settled
//	some failed            any                            False, CopiesFailed
//	some are not in place  any                            False, CopiesPending
//	some have to go        any                            False, CopiesRemoving
//	all are as they are    yes                            False, VolumesPending: it has no copy there that
//	to be                                                 could be counted
//	all are as they are    no                             True
//	to be
func settledCondition(progress map[string]Progress, awaits string) metav1.Condition {
	var sum Progress
	names := make([]string, 0, len(progress))
	for name := range progress {
		names = append(names, name)
	}
	slices.Sort(names)
	problem := ""
	for _, name := range names {
		p := progress[name]
		sum.Wanted += p.Wanted
		sum.Synced += p.Synced
		sum.Failed += p.Failed
		sum.Removing += p.Removing
		if problem == "" && p.Problem != "" {
			problem = name + ": " + p.Problem
		}
	}
	c := metav1.Condition{Type: placementv1alpha1.ConditionSettled, Status: metav1.ConditionFalse}
	switch {
	case sum.Failed > 0:
		c.Reason, c.Message = "CopiesFailed", fmt.Sprintf("%d of %d copies failed, the first is %s", sum.Failed, sum.Wanted, problem)
	case sum.Synced < sum.Wanted:
		c.Reason, c.Message = "CopiesPending", fmt.Sprintf("%d of %d copies are in place", sum.Synced, sum.Wanted)
	case sum.Removing > 0:
		c.Reason, c.Message = "CopiesRemoving", fmt.Sprintf("%d copies have to go", sum.Removing)
	case awaits != "":
		c.Reason, c.Message = "VolumesPending", awaits
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Settled", "every copy is in place"
	}
	return c
}

// EqualStatus reports whether two statuses say the same.
func EqualStatus(a, b placementv1alpha1.PlacementStatus) bool {
	return a.SchedulerName == b.SchedulerName && SameAwaited(a.Awaited, b.Awaited) && equality.Semantic.DeepEqual(a.Rollout, b.Rollout) && slices.Equal(a.Rejected, b.Rejected) &&
		equality.Semantic.DeepEqual(a.Requests, b.Requests) &&
		slices.EqualFunc(a.Targets, b.Targets, func(x, y placementv1alpha1.TargetStatus) bool {
			return x.PhysicalCluster == y.PhysicalCluster && x.Phase == y.Phase && x.Reason == y.Reason
		}) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(x, y metav1.Condition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message && x.ObservedGeneration == y.ObservedGeneration
		})
}
