package syncer

import (
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// reportInterval is the shortest time between two reports of one copy that differ
	// only in what controllers below say: they write a status in several steps, and
	// each report costs the server several requests.
	reportInterval = 100 * time.Millisecond
	// appliedDelay is how long the news that something was applied waits for what the
	// controllers below say about it, and then both are one write of the Copy instead of
	// two. Mostly they do so within milliseconds; it is a second for when there is much
	// to do below, which is when a write less counts most.
	appliedDelay = time.Second
)

// reportDelay is how long after the write before this one, or after the apply, may wait
// for more news; zero if it must not.
//
//	the Copy was, and would become                                       delay           after
//	Synced, with another status from below                               reportInterval  the write
//	any, Synced with what was applied, which nobody below has acted on   appliedDelay    the apply, or the write if it is later
//	else                                                                 none
func reportDelay(before, now *placementv1alpha1.Copy) time.Duration {
	switch {
	case onlyReports(before, now):
		return reportInterval
	case onlyApplied(before, now):
		return appliedDelay
	}
	return 0
}

// onlyReports says that now is before with another status from below. That can
// wait a moment; what somebody waits for, such as a removal, is never held back.
func onlyReports(before, now *placementv1alpha1.Copy) bool {
	if before == nil || before.Status.State != placementv1alpha1.CopySynced || before.Spec != now.Spec {
		return false
	}
	b, n := before.Status, now.Status
	b.Observed, b.ObservedGeneration, b.NoEndpoints = n.Observed, n.ObservedGeneration, n.NoEndpoints
	return equalStatus(b, n)
}

// onlyApplied says that now is before with the news that the object was applied,
// and that controllers below, which tell what they have acted on, have not done so
// yet. Nothing above follows from that alone: the object's status waits for them,
// too. After a crash in between the next session finds the same and writes it.
func onlyApplied(before, now *placementv1alpha1.Copy) bool {
	if before == nil || before.Spec != now.Spec || now.Status.State != placementv1alpha1.CopySynced || now.Status.ObservedGeneration >= now.Status.AppliedGeneration {
		return false
	}
	b, n := before.Status, now.Status
	made := b.State == placementv1alpha1.CopyPending && b.Reason == ReasonNew && b.PhysicalUID == ""
	if made {
		b.State, b.Reason, b.Message, b.PhysicalUID = n.State, n.Reason, n.Message, n.PhysicalUID
	}
	b.AppliedGeneration, b.PhysicalGeneration, b.Observed, b.NoEndpoints = n.AppliedGeneration, n.PhysicalGeneration, n.Observed, n.NoEndpoints
	return equalStatus(b, n)
}
