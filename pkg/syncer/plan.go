package syncer

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Plan says what to do next. No action means that nothing is to be done until
// something changes. The caller acts and asks again with what it learned, until
// there is no action left.
//
// What the object (L), its Copy (C) and the physical object (P) are:
//
//	L  live      wanted here
//	   going     has a deletion timestamp, or its entry says Removing; a Namespace
//	             only when it is empty
//	   observed  mirrors what controllers below made or adopted
//	   absent    not in this target's view
//	C  none
//	   current   records the UID of L (or L is absent)
//	   stale     records another UID: L was deleted and made again
//	   Removed   is acknowledged as removed
//	P  none
//	   ours      carries the mark with the UID of L or C, or the UID that C recorded
//	   old       carries the mark of this object with another UID
//	   foreign   anything else; and what would be old but is listed as an Orphan, as
//	             long as L is live or going, unless L is live and the order is Adopt:
//	             then it is ours
//
// Everything but the first record and the first apply needs to know P: if it is
// unseen, Look. The first apply is refused if anything is there, see neverApplied.
//
//	L       C               P             do
//	live    none            any           1 WriteCopy Pending
//	live    Removed         any           2 nothing: the server deletes the Copy first
//	live    stale           ours by C     3 AskServer; gone: Delete it, WriteCopy Removing
//	live    stale           other         4 AskServer; gone: WriteCopy Removed
//	live    current         not to be     4a WriteCopy Failed, with why
//	                        looked at
//	live    current         foreign       5 WriteCopy Failed, NotOurs or OrphanInTheWay
//	live    current, of     any           5a WriteCopy Pending, OtherNamespace
//	        another place
//	live    current,        any           5b WriteCopy Pending with the place
//	        without place
//	live    current         old           6 AskServer, as its object may have come back with a backup; gone:
//	                                        Delete it
//	live    current         none          7 CreateNamespace if need be, LookAtRules if it makes pods, Supply what
//	                                        they mount, Apply; a finished Job or Pod stays gone
//	live    current, names  none          7a WriteCopy Pending without it: if the server has accepted a
//	        a controller or                  controller by now, of which we may not have heard, that is a
//	        a physical UID                   conflict, and the record comes before what is made again
//	live    current, names  any           7b nothing: the server makes L observed
//	        an accepted one
//	live    current         none, ours    7c a claim whose volume is on its way: see volume
//	live    current         ours, a new   7d PatchStatus, see lastRunBelow: what runs there goes on from the last run
//	                        CronJob
//	live    current         ours          8 Supply and Apply if something differs, else WriteCopy if that differs; see contest
//	                                        for what others change below again and again
//	live    current         ours, with a  8a WriteCopy Pending with the controller: the server makes L
//	                        controller       observed, if Adopts agrees
//	going   Removed         any           9 nothing
//	going   stale           any           3 or 4
//	going   none, current   ours or old   10 WriteCopy Removing; of another incarnation: AskServer, as in 6;
//	                                        Delete it; of a Namespace that is being deleted
//	                                        below: WriteCopy Removing, Terminating; of a CronJob that
//	                                        leaves: see stopRuns; of a Namespace that leaves: see
//	                                        deleteLast, and with orphans in it WriteCopy Removing,
//	                                        OrphansInside
//	going   none, current   none, foreign 11 WriteCopy Removed; if that is not proven, Removing, with why,
//	                                        until it is
//	absent  none            ours or old   12 Report: nothing recorded, nothing removed
//	absent  none            other         13 nothing
//	absent  Removed         any           13 nothing
//	absent  any other       any           14 AskServer; gone: as 10 and 11 for that UID only
//	observed none           ours or old,  12 Report
//	                        not what L
//	                        mirrors
//	observed any other      any           15 nothing: see Observe; the server deletes the Copy
//
// In place of a WriteCopy that says no more than what controllers below have done there
// is a Wait for a moment, see reportDelay: more is likely to come. So is it in place of a
// report that counts pods which are not mirrored yet, see countingDelay.
func Plan(in Input) []Action {
	p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
	switch {
	case p.copy == copyRemoved: // 2, 9, 13
		return nil
	case p.holds():
		return p.holder()
	case in.Unseen && p.logical != logicalObserved && !(p.logical == logicalLive && p.copy == copyNone) && !p.neverApplied():
		return []Action{{Verb: Look, Why: "Unseen"}}
	case p.logical == logicalObserved:
		return p.observed()
	case p.logical == logicalAbsent:
		return p.absent()
	case p.copy == copyStale:
		return p.finishStale()
	case p.logical == logicalGoing:
		return p.remove(in.Logical.GetUID(), reasonRemoving)
	}
	return p.keep()
}

type planner struct {
	Input
	logical  logicalClass
	copy     copyClass
	physical physicalClass
}

// neverApplied says that nothing of the object is below as far as anybody wrote
// down, and that it can go there now. Its apply demands that the name is free, so
// that asking first would only cost a request; where it is not, because we were
// stopped before we could write it down or somebody else was there, the refusal
// makes us look.
func (p planner) neverApplied() bool {
	if p.logical != logicalLive || p.copy != copyCurrent || p.Failure != nil || p.carries() && p.Carried == nil ||
		!p.carries() && p.Namespace.Name == "" || p.Namespace.State != NamespaceReady && p.Namespace.State != NamespaceAbsent {
		return false
	}
	s := p.Copy.Status
	return s.State == placementv1alpha1.CopyPending && s.Reason == ReasonNew && s.PhysicalUID == "" && s.Observed == nil && s.Controller == nil
}

// keep: cells 1 and 5 to 8.
func (p planner) keep() []Action {
	uid := p.Logical.GetUID()
	adopter := p.adopter()
	switch {
	case p.copy == copyNone: // 1
		return p.write(p.status(placementv1alpha1.CopyPending, ReasonNew, ""), uid)
	case AdoptionAccepted(p.Copy): // 7b
		return nil
	case p.Unproven: // 4a
		return p.fail(p.notKnown())
	case p.physical == physicalForeign: // 5
		return p.fail(p.inTheWay())
	case adopter != nil: // 8a
		return p.adopted(adopter)
	case p.carries() && p.Ref.Cluster != scope.Root: // no server makes such a one
		return p.fail(Failure{Reason: ReasonNotPermitted, Message: "only what is in root is carried as it is"})
	case p.carries() && p.Carried == nil:
		return p.failed()
	case p.Namespace.Name == "" && !p.carries():
		return p.write(p.status(placementv1alpha1.CopyPending, "NoPhysicalNamespace", "the namespace has no recorded name on physical clusters yet"), uid)
	case p.Namespace.State == NamespaceDisputed: // 5a
		return p.write(p.status(placementv1alpha1.CopyPending, ReasonOtherNamespace, "the copy belongs in the namespace "+p.Namespace.Name+
			" of the physical cluster by its record, and in another one by its Namespace; nothing is written before both say the same, and its removal asks in "+p.Namespace.Name), uid)
	case p.unrecorded(): // 5b
		return p.write(p.status(placementv1alpha1.CopyPending, ReasonNew, ""), uid)
	case p.Namespace.State == NamespaceNotOurs:
		return p.fail(Failure{Reason: "NamespaceNotOurs", Message: "the namespace " + p.Namespace.Name + " of the physical cluster belongs to somebody else"})
	case p.Namespace.State == NamespaceTerminating:
		return p.write(p.status(placementv1alpha1.CopyPending, "NamespaceTerminating", "the namespace "+p.Namespace.Name+" is being deleted on the physical cluster"), uid)
	case p.physical != physicalNone && p.Physical.GetDeletionTimestamp() != nil:
		if actions := p.keepDeleted(); len(actions) > 0 && p.Failure == nil {
			return actions
		}
		return p.write(p.status(placementv1alpha1.CopyPending, "Terminating", "the object is being deleted on the physical cluster"), uid)
	case p.physical == physicalOld: // 6
		return p.deleteIncarnation()
	case p.physical == physicalNone && finished(p.Ref.Kind, p.Copy): // 7
		return p.write(p.status(placementv1alpha1.CopySynced, "Finished", ""), uid)
	}
	if patch := p.lastRunBelow(); patch != nil { // 7d, before the record names what is below
		return []Action{{Verb: PatchStatus, Object: patch, Why: "LastRun"}}
	}
	switch {
	case p.Failure != nil:
		return p.failed()
	case p.physical == physicalNone && p.mayBeKept():
		return []Action{{Verb: LookAtVolume, Why: "ClaimGone"}}
	case p.physical == physicalNone && (p.Copy.Status.Controller != nil || p.Copy.Status.PhysicalUID != ""): // 7a
		anew := p.status(placementv1alpha1.CopyPending, ReasonNew, p.losesData())
		anew.PhysicalUID = ""
		return p.write(anew, uid)
	case p.physical == physicalNone && p.Namespace.State == NamespaceAbsent: // 7
		return []Action{{Verb: CreateNamespace, Why: "First"}}
	}
	if actions, done := p.volume(); !done {
		return actions
	}
	return p.apply() // 7, 8
}

func (p planner) apply() []Action {
	if _, lacking := p.runtimeClass(); lacking != "" {
		return p.fail(Failure{Reason: ReasonNoRuntimeClass, Message: "the physical cluster has no " + lacking + " that pods may run with"})
	}
	if p.HostTaken != "" {
		return p.hostTaken()
	}
	if p.physical == physicalNone && workload.Ruled(p.Ref.Kind) && !p.Ruled {
		// Its controller below would make pods at once.
		return []Action{{Verb: LookAtRules, Why: "First"}}
	}
	if p.Withheld != "" {
		return p.fail(Failure{Reason: ReasonNoFormerContent, Message: p.Withheld})
	}
	if actions, done := p.rangeInTheWay(); done {
		return actions
	}
	placing := p.placing()
	nameserver, unknown := p.nameserver()
	if unknown {
		return []Action{{Verb: Supply, Supplies: Supplies{Nameserver: true}, Why: "NoNames"}}
	}
	placing.Nameserver = nameserver
	if name := AccountName(p.Ref.Kind, p.Logical, placing.Server); name != "" && p.Account == nil {
		return p.noAccount(name)
	}
	if failure := overrideFailure(p.Logical, placing); failure != nil {
		return p.fail(*failure)
	}
	desired, findings := Transform(p.Logical, placing)
	p.setSource(desired)
	if refusals := boundary.Refusals(findings); len(refusals) > 0 {
		return p.fail(Failure{Reason: ReasonNotPermitted, Message: summary(refusals)})
	}
	if p.physical == physicalNone {
		return p.supplied(placing, Action{Verb: Apply, Object: desired, Why: "Absent"})
	}
	desired.SetUID(p.Physical.GetUID())
	keepStricterLevel(desired, p.Physical)
	changed, drifted := p.differs(desired)
	if p.Applied { // whatever it looks like, it has just been done
		changed, drifted = false, false
	}
	if changed {
		if patch := resizedCopy(p.Ref.Kind, desired, p.Physical); patch != nil {
			return []Action{{Verb: Resize, Object: patch, Why: "Changed"}}
		}
		return p.supplied(placing, Action{Verb: Apply, Object: p.over(desired), Why: "Changed"})
	}
	if actions, done := p.contest(drifted); done {
		return actions
	}
	if drifted {
		return []Action{{Verb: Apply, Object: p.over(desired), Drift: true, Why: "Drifted"}}
	}
	if actions := p.pods(); len(actions) > 0 {
		return actions
	}
	findings, waits := waiting(findings)
	reason, message := "", summary(findings)
	switch {
	case placing.Account != nil && p.Account != nil && placing.Account.UID != p.Account.UID:
		reason, message = ReasonAccountReplaced, "the service account was deleted and made again, and the tokens of these pods ended with it: delete the object to have it made anew"
	case p.mayMissRun() != "":
		reason, message = ReasonRunMayBeMissed, p.mayMissRun()
	case waits:
		reason = ReasonNoClass
	case len(findings) > 0:
		reason = ReasonAdjusted
	}
	if actions := p.write(p.status(placementv1alpha1.CopySynced, reason, message), p.Logical.GetUID()); len(actions) > 0 {
		return actions
	}
	if actions := p.podsLeft(); len(actions) > 0 {
		return actions
	}
	if actions := p.helper(); len(actions) > 0 {
		return actions
	}
	if actions := p.snapshot(); len(actions) > 0 {
		return actions
	}
	return p.volumeInUse()
}

// over is what is applied over what is there, in the version that was looked at where a later one is to be looked
// at first:
//
//	what is there             then
//	has not the mark of this  that version: of several that take it, or take it back, at a time one does
//	object
//	has a range of ordinals   that version: a range must not come back that was given up since, also not by who
//	                          was stopped for a while, or by a request that was on its way
//	any other                 any version
func (p planner) over(desired *unstructured.Unstructured) *unstructured.Unstructured {
	mark, _ := MarkOf(p.Ref.Kind.GroupResource(), p.Physical)
	if mark != markFor(p.ControlPlane, p.Ref, p.Logical.GetUID()) || desired.GetAnnotations()[OrdinalsAnnotation] != "" {
		desired.SetResourceVersion(p.Physical.GetResourceVersion())
	}
	return desired
}

// differs says whether there is something new to apply, or else whether somebody
// changed what was applied. What the copy says about the last apply serves only
// who does not remember it: others can write that, too.
func (p planner) differs(desired *unstructured.Unstructured) (changed, drifted bool) {
	digest := desired.GetAnnotations()[AppliedAnnotation]
	if p.Settled == "" {
		changed = p.Physical.GetAnnotations()[AppliedAnnotation] != digest
		return changed, !changed && !Owns(p.Physical, desired)
	}
	changed = !strings.HasPrefix(p.Settled, digest+" ")
	return changed, !changed && Fingerprint(p.Physical) != p.Settled
}

// entry is that of the target in the targets annotation.
func (p planner) entry() placementv1alpha1.Target {
	return stamp.TargetsOf(p.Logical.GetAnnotations())[p.Target]
}

func (p planner) placing() Placing {
	account, server, plain, permits := p.Account, p.Server, false, p.Permits
	if p.physical == physicalOurs {
		permits = keepStorageClasses(permits, p.Ref.Kind, p.Logical, p.Physical)
	}
	if p.Ref.Kind.Recreate && p.physical == physicalOurs {
		account, server = made(p.Ref.Kind, p.Physical.Object, account, server)
		plain = asksBelow(p.Ref.Kind, p.Physical.Object)
	}
	runtimeClass, _ := p.runtimeClass()
	return Placing{
		Account: account, Server: server, PlainFields: plain,
		Ref: p.Ref, ControlPlane: p.ControlPlane, Namespace: p.Namespace.Name,
		Target: p.entry(), Bounds: p.Bounds, Start: p.startOf(), Permits: permits, Offered: p.Offered, RuntimeClass: runtimeClass,
		OmitReplicas: !ranged(p.entry()) && (p.Scaled && !p.stopped() || p.controlled()) && p.physical == physicalOurs && scaledByOthers(p.Ref.Kind, p.Physical),
		Stopped:      p.stopped(),
	}
}

// failed turns the failure of an apply into what happens next: Jobs and Pods,
// which cannot be changed, are made again; anything else waits for a person.
func (p planner) failed() []Action {
	if !p.Failure.Immutable || !p.Ref.Kind.Recreate || p.physical != physicalOurs {
		return p.fail(*p.Failure)
	}
	actions := p.write(p.status(placementv1alpha1.CopyPending, "Recreating", p.Failure.Message), p.Logical.GetUID())
	return append(actions, p.delete(nil, "Recreate")...)
}

func (p planner) fail(f Failure) []Action {
	return p.write(p.status(placementv1alpha1.CopyFailed, f.Reason, f.Message), p.Logical.GetUID())
}
