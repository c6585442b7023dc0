package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// lastScheduleTime is when the last run of a CronJob was due that was begun. The controller below
// reckons from it, or else from the creation of what is below, which runs it has missed.
const lastScheduleTime = "lastScheduleTime"

const (
	// ReasonRunMayBeMissed is the reason of the Copy of a CronJob that was made where nobody could
	// say when its last run was.
	ReasonRunMayBeMissed = "RunMayBeMissed"
	// ReasonJobRuns is that of a CronJob that leaves, and of which a job runs to its end.
	ReasonJobRuns = placementv1alpha1.ReasonJobRuns
)

// maxClockAhead is how far ahead of our clock a run that was begun elsewhere may have been due. What
// is said to be later would keep a CronJob from running.
const maxClockAhead = 10 * time.Minute

// timeIn is a time of a status; zero if there is none, or nothing that is one.
func timeIn(status map[string]any, name string) time.Time {
	text, _ := status[name].(string)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// isCreation says that a status has the creation of a CronJob in the place of its last run: it never
// ran. No run is due at the moment of creation, but after it.
func isCreation(logical *unstructured.Unstructured, status map[string]any) bool {
	t := timeIn(status, lastScheduleTime)
	return !t.IsZero() && t.Equal(logical.GetCreationTimestamp().Time)
}

// remember keeps in a status the times of which the latest counts, as any Copy has them, and the
// object itself: also where it has left, as what comes elsewhere goes on from there.
func remember(kind workload.Kind, logical *unstructured.Unstructured, status map[string]any, copies []*placementv1alpha1.Copy) {
	said := []map[string]any{field(logical.Object, "status")}
	for _, c := range copies {
		if c.Spec.Object.UID == logical.GetUID() {
			said = append(said, observedStatus(c))
		}
	}
	for _, name := range kind.Status.Latest {
		for _, s := range said {
			if t := timeIn(s, name); !t.IsZero() && t.After(timeIn(status, name)) {
				status[name] = s[name]
			}
		}
	}
}

// Remembered says that the status of a CronJob has the last run that a Copy of it tells of. Only then
// the Copy may go.
func Remembered(kind workload.Kind, logical *unstructured.Unstructured, c *placementv1alpha1.Copy) bool {
	if kind.Semantics != workload.CronJobSemantics || c.Spec.Object.UID != logical.GetUID() {
		return true
	}
	said := observedStatus(c)
	return isCreation(logical, said) || !timeIn(said, lastScheduleTime).After(timeIn(field(logical.Object, "status"), lastScheduleTime))
}

// lastRunBelow is the merge patch that has a CronJob that is new below go on from where it was: the
// controller there begins what was due since, by the rules that it has for when it was away itself.
// nil if there is nothing to say.
//
//	the copy                                     it ran      then
//	is recorded                                  any         nothing: it is what the record was made of
//	has a last run                               any         nothing: the controller below has begun one since
//	has none                                     somewhere   that
//	has none, and was made after the object was  nowhere     when that was, which no status above shows
//	has none, else                               nowhere     nothing: it reckons from its own creation
//
// It names the version that it was made for: what the controller below writes meanwhile is later. Who
// stops before it is set finds the copy unrecorded.
func (p planner) lastRunBelow() *unstructured.Unstructured {
	if p.Ref.Kind.Semantics != workload.CronJobSemantics || p.physical != physicalOurs || p.NotCarried != "" ||
		p.Copy.Status.PhysicalUID == p.Physical.GetUID() || !timeIn(field(p.Physical.Object, "status"), lastScheduleTime).IsZero() {
		return nil
	}
	since := p.since()
	if since.IsZero() {
		return nil
	}
	patch := versionPatch(p.Physical)
	patch.Object["status"] = map[string]any{lastScheduleTime: since.UTC().Format(time.RFC3339)}
	return patch
}

// since is when the last run was due that was begun, or else when the object was made, if it has been
// there for longer than its copy; zero: neither.
func (p planner) since() time.Time {
	var last time.Time
	for _, said := range []map[string]any{field(p.Logical.Object, "status"), observedStatus(p.Copy)} {
		if t := timeIn(said, lastScheduleTime); t.After(last) && !isCreation(p.Logical, said) {
			last = t
		}
	}
	created := p.Logical.GetCreationTimestamp().Time
	switch {
	case last.After(p.Now.Add(maxClockAhead)):
		return time.Time{}
	case !last.IsZero():
		return last
	case created.Before(p.Physical.GetCreationTimestamp().Time):
		return created
	}
	return time.Time{}
}

// mayMissRun says, as long as nothing has run there, that the copy did not get the time of the last
// run; empty: it did, or needed none.
func (p planner) mayMissRun() string {
	s := p.Copy.Status
	switch {
	case p.Ref.Kind.Semantics != workload.CronJobSemantics:
		return ""
	case p.NotCarried != "":
		return "a run that was due before the copy was made is not begun: the time of the last one could not be written into its status. " + p.NotCarried
	case s.Reason == ReasonRunMayBeMissed && s.PhysicalUID == p.Physical.GetUID() && timeIn(field(p.Physical.Object, "status"), lastScheduleTime).IsZero():
		return s.Message
	}
	return ""
}

// leavesWithRuns says that a CronJob is removed from where it is to go on elsewhere, or to run in
// fewer places: no job of it is to end by that.
func (p planner) leavesWithRuns(why string) bool {
	return p.Ref.Kind.Semantics == workload.CronJobSemantics && why == reasonRemoving && p.logical == logicalGoing && p.physical == physicalOurs &&
		p.Logical.GetDeletionTimestamp() == nil && p.Physical.GetDeletionTimestamp() == nil
}

// stopRuns removes a CronJob while no job of it runs: of the version that was looked at and that the
// Copy tells of. A run that is begun meanwhile is a later version; one that is begun and not written
// down ends with the copy, and is due wherever it goes.
//
//	a job runs   begins more   then
//	yes          yes           Suspend: else one could follow on the other
//	yes          no            WriteCopy Removing, JobRuns
//	no           any           WriteCopy Removing, and Delete that version
func (p planner) stopRuns(uid types.UID, why string) []Action {
	active := len(list(field(p.Physical.Object, "status"), "active")) > 0
	if suspended, _ := field(p.Physical.Object, "spec")["suspend"].(bool); active && !suspended {
		patch := versionPatch(p.Physical)
		patch.Object["spec"] = map[string]any{"suspend": true}
		return []Action{{Verb: Suspend, Object: patch, Why: ReasonJobRuns}}
	}
	if active {
		return p.write(p.status(placementv1alpha1.CopyRemoving, ReasonJobRuns, "a job of it runs to its end, and no other one is begun"), uid)
	}
	if actions := p.write(p.status(placementv1alpha1.CopyRemoving, why, ""), uid); len(actions) > 0 {
		return actions
	}
	actions := p.delete(p.Logical, why)
	actions[0].Version = p.Physical.GetResourceVersion()
	return actions
}

// versionPatch is a patch of nothing but this version of an object.
func versionPatch(obj *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"uid": string(obj.GetUID()), "resourceVersion": obj.GetResourceVersion()},
	}}
}
