package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// clock is a time of one day, at which a test is at noon.
func clock(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, "2026-01-01T"+text+"Z")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func ranAt(t *testing.T, obj *unstructured.Unstructured, text string) {
	if text != "" {
		setNested(obj.Object, clock(t, text).Format(time.RFC3339), "status", lastScheduleTime)
	}
}

func TestACronJobThatIsMadeAnewGoesOnFromItsLastRun(t *testing.T) {
	for name, c := range map[string]struct {
		created, ran string // above
		recorded     string // the last run that the Copy tells of
		made, below  string // below: creation and last run
		record       string // the physical UID in the Copy
		refused      string
		want         string
	}{
		"it ran elsewhere":                              {created: "08:00:00", ran: "11:59:00", made: "12:00:00", want: "11:59:00"},
		"at the very moment in which it is made":        {created: "08:00:00", ran: "12:00:00", made: "12:00:00", want: "12:00:00"},
		"by a clock that is ahead of the one here":      {created: "08:00:00", ran: "12:01:00", made: "11:59:58", want: "12:01:00"},
		"or said to have run in hours":                  {created: "08:00:00", ran: "15:00:00", made: "12:00:00"},
		"it ran here, as only the Copy says as yet":     {created: "08:00:00", ran: "11:58:00", recorded: "11:59:00", made: "12:00:00", want: "11:59:00"},
		"the object says more than the Copy":            {created: "08:00:00", ran: "11:59:00", recorded: "11:58:00", made: "12:00:00", want: "11:59:00"},
		"it never ran":                                  {created: "08:00:00", made: "12:00:00", want: "08:00:00"},
		"the copy before had the creation":              {created: "08:00:00", recorded: "08:00:00", made: "12:00:00", want: "08:00:00"},
		"it is new on both sides":                       {created: "12:00:00", made: "12:00:00"},
		"it was adopted, and is older than the object":  {created: "11:00:00", made: "08:00:00"},
		"adopted, of an object that ran elsewhere":      {created: "11:00:00", ran: "11:30:00", made: "08:00:00", want: "11:30:00"},
		"the controller below has begun a run by now":   {created: "08:00:00", ran: "11:58:00", made: "11:59:30", below: "12:00:00"},
		"also one that was due before what the object":  {created: "08:00:00", ran: "11:59:00", made: "08:00:00", below: "11:00:00"},
		"the record tells of it: it is not new":         {created: "08:00:00", ran: "11:59:00", made: "12:00:00", record: "p1"},
		"the record tells of the one before":            {created: "08:00:00", ran: "11:59:00", made: "12:00:00", record: "p0", want: "11:59:00"},
		"the physical cluster does not take it":         {created: "08:00:00", ran: "11:59:00", made: "12:00:00", refused: "no"},
		"nobody knows when the object was made, or ran": {made: "12:00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			in := situation{kind: "CronJob", logical: "live", copy: "Pending", physical: "old", edit: func(in *Input) {
				in.Now, in.NotCarried = clock(t, "12:00:00"), c.refused
				if c.created != "" {
					in.Logical.SetCreationTimestamp(metav1.Time{Time: clock(t, c.created)})
				}
				in.Physical.SetCreationTimestamp(metav1.Time{Time: clock(t, c.made)})
				in.Physical.SetResourceVersion("7")
				in.Copy.Status.PhysicalUID = types.UID(c.record)
				ranAt(t, in.Logical, c.ran)
				ranAt(t, in.Physical, c.below)
				if c.recorded != "" {
					in.Copy.Status.Observed = &runtime.RawExtension{Raw: []byte(`{"lastScheduleTime":"` + clock(t, c.recorded).Format(time.RFC3339) + `"}`)}
				}
			}}.input()
			actions := Plan(in)
			if c.want == "" {
				if len(actions) > 0 && actions[0].Verb == PatchStatus {
					t.Errorf("it says %v", actions[0].Object.Object["status"])
				}
				return
			}
			if len(actions) != 1 || actions[0].Verb != PatchStatus {
				t.Fatalf("got %s", describe(actions))
			}
			want := map[string]any{
				"metadata": map[string]any{"uid": "p1", "resourceVersion": "7"},
				"status":   map[string]any{lastScheduleTime: clock(t, c.want).Format(time.RFC3339)},
			}
			if diff := cmp.Diff(want, actions[0].Object.Object); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			// Done, it is recorded; and who was stopped in between does not do it again.
			in.Physical.Object["status"] = want["status"]
			if got := describe(Plan(in)); got != "WriteCopy Synced" {
				t.Errorf("then %s", got)
			}
		})
	}
}

func TestTheLastRunComesBeforeTheRecordOfAFailure(t *testing.T) {
	// The record of a failure names what is below, and from then on it is not new.
	in := situation{kind: "CronJob", logical: "live", copy: "Pending", physical: "old", failure: &Failure{Reason: "Invalid"}, edit: func(in *Input) {
		in.Now = clock(t, "12:00:00")
		in.Copy.Status.PhysicalUID = ""
		ranAt(t, in.Logical, "11:59:00")
	}}.input()
	if got := describe(Plan(in)); got != "PatchStatus" {
		t.Errorf("got %s", got)
	}
}

func TestARefusalToTakeTheLastRunStaysOnTheCopyUntilTheNextRun(t *testing.T) {
	in := situation{kind: "CronJob", logical: "live", copy: "Pending", physical: "old", edit: func(in *Input) {
		in.Now, in.NotCarried = clock(t, "12:00:00"), "the physical cluster refused it: no patch of cronjobs/status"
		in.Copy.Status.PhysicalUID = ""
		ranAt(t, in.Logical, "11:59:00")
	}}.input()
	actions := Plan(in)
	if got := describe(actions); got != "WriteCopy Synced/RunMayBeMissed" {
		t.Fatalf("got %s", got)
	}
	in.Copy, in.NotCarried = actions[0].Copy, ""
	if got := describe(Plan(in)); got != "" {
		t.Errorf("later %s", got)
	}
	ranAt(t, in.Physical, "12:01:00")
	actions = Plan(in)
	if got := describe(actions); got != "WriteCopy Synced" {
		t.Errorf("after the next run %s", got)
	}
}

func TestACronJobLeavesBetweenItsRuns(t *testing.T) {
	removing := func(copyState, status string, edit func(*Input)) situation {
		return situation{kind: "CronJob", logical: "removing", copy: copyState, physical: "old", edit: func(in *Input) {
			in.Physical.SetResourceVersion("7")
			if status != "" {
				in.Physical.Object["status"] = parseMap(t, status)
			}
			if edit != nil {
				edit(in)
			}
		}}
	}
	suspended := func(in *Input) { setNested(in.Physical.Object, true, "spec", "suspend") }
	recorded := func(reason, observed string) func(*Input) {
		return func(in *Input) {
			in.Copy.Status.Reason, in.Copy.Status.Observed = reason, nil
			if observed != "" {
				in.Copy.Status.Observed = &runtime.RawExtension{Raw: []byte(observed)}
			}
		}
	}
	for name, c := range map[string]struct {
		s    situation
		want string
	}{
		"a job runs: no other one is begun":             {removing("Synced", `{active: [{name: a}]}`, nil), "Suspend"},
		"and it runs to its end":                        {removing("Synced", `{active: [{name: a}]}`, suspended), "WriteCopy Removing/JobRuns"},
		"also where it is suspended by who may not":     {removing("Synced", `{active: [{name: a}]}`, func(in *Input) { in.Failure = &Failure{Reason: "Forbidden"} }), "WriteCopy Removing/Forbidden"},
		"none runs: the last run is written down first": {removing("Synced", `{lastScheduleTime: "2026-01-01T11:59:00Z"}`, nil), "WriteCopy Removing/Removing"},
		"then it goes, in the version that says so":     {removing("Removing", `{lastScheduleTime: "2026-01-01T11:59:00Z"}`, recorded("Removing", `{"lastScheduleTime":"2026-01-01T11:59:00Z"}`)), "Delete p1 Removing of 7"},
		"it never ran":                                   {removing("Removing", "", recorded("Removing", "")), "Delete p1 Removing of 7"},
		"its deletion is on its way":                     {removing("Removing", `{active: [{name: a}]}`, func(in *Input) { in.Physical.SetDeletionTimestamp(&metav1.Time{Time: clock(t, "12:00:00")}) }), "WriteCopy Removing/Removing"},
		"a user deletes it: as in one cluster, at once":  {removing("Synced", `{active: [{name: a}]}`, func(in *Input) { in.Logical.SetDeletionTimestamp(&metav1.Time{Time: clock(t, "12:00:00")}) }), "WriteCopy Removing/Removing, Delete p1 Removing"},
		"what mentions no job waits for none of another": {situation{kind: "Deployment", logical: "removing", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
	} {
		t.Run(name, func(t *testing.T) {
			actions := Plan(c.s.input())
			got := describe(actions)
			if n := len(actions); n > 0 && actions[n-1].Version != "" {
				got += " of " + actions[n-1].Version
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestACopyOfACronJobGoesOnceItsLastRunIsRemembered(t *testing.T) {
	logical := func(ran string) *unstructured.Unstructured {
		obj := newObject(Ref{Kind: kinds["CronJob"], Namespace: "web", Name: "tick"})
		obj.SetUID("u")
		obj.SetCreationTimestamp(metav1.Time{Time: clock(t, "08:00:00")})
		ranAt(t, obj, ran)
		return obj
	}
	for name, c := range map[string]struct {
		kind, above, copied, uid string
		want                     bool
	}{
		"it never ran":                          {copied: "", want: true},
		"it is not in the status yet":           {copied: "11:59:00", want: false},
		"an earlier one is":                     {above: "11:58:00", copied: "11:59:00", want: false},
		"it is":                                 {above: "11:59:00", copied: "11:59:00", want: true},
		"a later one is":                        {above: "12:00:00", copied: "11:59:00", want: true},
		"it is the creation, which is no run":   {copied: "08:00:00", want: true},
		"it is of an object that had the name":  {copied: "11:59:00", uid: "before", want: true},
		"it is an autoscaler, which has no run": {kind: "HorizontalPodAutoscaler", copied: "11:59:00", want: true},
	} {
		if c.kind == "" {
			c.kind = "CronJob"
		}
		copied := "[{physicalCluster: east, state: Removed, uid: u" + c.uid + "}]"
		one := copiesOf(t, copied)[0]
		if c.copied != "" {
			one.Status.Observed = &runtime.RawExtension{Raw: []byte(`{"lastScheduleTime":"` + clock(t, c.copied).Format(time.RFC3339) + `"}`)}
		}
		obj := logical(c.above)
		if got := Remembered(kinds[c.kind], obj, one); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		// What is summarized is remembered.
		status, _ := Summarize(kinds[c.kind], obj, []*placementv1alpha1.Copy{one}, someTime)
		obj.Object["status"] = status
		if !Remembered(kinds[c.kind], obj, one) {
			t.Errorf("%s: not even by %v", name, status)
		}
	}
}
