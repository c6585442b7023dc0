package simulation

import (
	"encoding/json"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

var plantedCrons = []plant{
	{"a CronJob begins anew where it goes", Bugs{plan: forgetsRuns}, NoneMissed, 20, nil},
	{"the last run is begun again where a CronJob goes", Bugs{alter: carriesEarlier}, RunOnce, 20, nil},
	{"a CronJob goes while a job runs", Bugs{plan: stopsAtOnce}, JobsEnd, 20, nil},
}

// movedAcrossRuns moves CronJobs again and again, at some moment between two runs, or of one.
func movedAcrossRuns(seed int) []Happening {
	const period, apart = 71, 7 // as waits have them: twenty seconds, and so much that moments are apart
	script := []Happening{on("pin", 10, "one", "web", Happening{Physical: "west", N: 1})}
	for _, name := range []string{"a", "b"} {
		script = append(script, on("schedule", 12, "one", "web", Happening{Name: name, N: 1}))
	}
	script = append(script, on("wait", 14, "one", "web", Happening{N: apart * seed % period}))
	for i := range 8 {
		to := []string{"east", "west"}[i%2]
		script = append(script,
			on("stop syncer", 20+i, "one", "web", Happening{Physical: to}), // its copies are made some seconds later
			on("pin", 20+i, "one", "web", Happening{Physical: to, N: 1}), on("wait", 20+i, "one", "web", Happening{N: period}))
	}
	return script
}

// forgetsRuns says nothing to a controller below of what ran before.
func forgetsRuns(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) > 0 && actions[0].Verb == syncer.PatchStatus && in.Ref.Kind.GroupResource() == cronJobs {
		in.Copy = in.Copy.DeepCopy()
		in.Copy.Status.PhysicalUID = in.Physical.GetUID() // as if it had been said
		return syncer.Plan(in)
	}
	return actions
}

// carriesEarlier has what is said to a controller below be about the run before the last one.
func carriesEarlier(c *call) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || r.method != http.MethodPatch || r.res.GroupResource() != cronJobs || r.subresource != "status" {
		return
	}
	var patch map[string]any
	if json.Unmarshal(r.body, &patch) != nil {
		return
	}
	status := patch["status"].(map[string]any)
	last, _ := time.Parse(time.RFC3339, status["lastScheduleTime"].(string)) // ours
	status["lastScheduleTime"] = last.Add(-schedule).Format(time.RFC3339)
	r.body, _ = json.Marshal(patch) // it was decoded
}

// stopsAtOnce sees no job that runs.
func stopsAtOnce(in syncer.Input) []syncer.Action {
	if in.Physical != nil && in.Ref.Kind.GroupResource() == cronJobs {
		in.Physical = in.Physical.DeepCopy()
		unstructured.RemoveNestedField(in.Physical.Object, "status", "active")
	}
	return syncer.Plan(in)
}
