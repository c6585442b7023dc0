package transition

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	starting = placementv1alpha1.TransitionStarting
	draining = placementv1alpha1.TransitionDraining
	removing = placementv1alpha1.TransitionRemoving
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// object is one of generation 1, with targets, fields of its spec, and what its Copies
// say: "east: Synced {...}".
func object(kind schema.GroupKind, name, targets string, spec map[string]any, copies ...string) Object {
	k, ok := workload.Builtin().ByKind(kind)
	if !ok {
		panic(kind)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetName(name)
	u.SetGeneration(1)
	u.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
	o := Object{Kind: k, Logical: u, Copies: map[string]*placementv1alpha1.Copy{}}
	for _, text := range copies {
		target, rest, _ := strings.Cut(text, ": ")
		state, status, _ := strings.Cut(rest, " ")
		c := &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: target}}
		c.Status.State, c.Status.AppliedGeneration, c.Status.ObservedGeneration = placementv1alpha1.CopyState(state), 1, 1
		if status != "" {
			c.Status.Observed = &runtime.RawExtension{Raw: []byte(status)}
		}
		o.Copies[target] = c
	}
	return o
}

var (
	deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	services    = schema.GroupKind{Kind: "Service"}
	jobs        = schema.GroupKind{Group: "batch", Kind: "Job"}
	cronJobs    = schema.GroupKind{Group: "batch", Kind: "CronJob"}
	sets        = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	replicaSets = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	ingresses   = schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}
	namespaces  = schema.GroupKind{Kind: "Namespace"}
	daemons     = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
)

// refusedOnEast is a Job that has a copy nowhere, which east refused.
func refusedOnEast() Object {
	o := object(jobs, "j", `{"east":{},"west":{"state":"Finished"}}`, nil, "east: Failed")
	o.Copies["east"].Status.Reason = "NoRuntimeClass"
	return o
}

// jobRunsOnEast is a CronJob that leaves east, where a job was begun in that moment.
func jobRunsOnEast() Object {
	o := object(cronJobs, "c", `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`, nil, "east: Removing")
	o.Copies["east"].Status.Reason = placementv1alpha1.ReasonJobRuns
	return o
}

// terminating is the Namespace, of which the physical one on east is being deleted.
func terminating(targets string) Object {
	o := object(namespaces, "n", targets, nil, "east: Removing", "west: Synced")
	o.Copies["east"].Status.Reason = placementv1alpha1.ReasonTerminating
	return o
}

// keptForOrphans is the Namespace, of which the physical one on east stays for what an admin decides about.
func keptForOrphans(targets string) Object {
	o := terminating(targets)
	o.Copies["east"].Status.Reason = placementv1alpha1.ReasonOrphansInside
	return o
}

// address is the status of what has one.
const address = `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`

func serviceOf(app, targets string, copies ...string) Object {
	return object(services, "front", targets, map[string]any{"selector": map[string]any{"app": app}}, copies...)
}

func set(app, targets string, copies ...string) Object {
	return object(sets, app, targets, map[string]any{"replicas": int64(0), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": app, "tier": "back"}}}}, copies...)
}

// some is a set that wants pods.
func some(app, targets string, copies ...string) Object {
	o := set(app, targets, copies...)
	o.Logical.Object["spec"].(map[string]any)["replicas"] = int64(3)
	return o
}

func web(targets string, copies ...string) Object {
	return object(deployments, "web", targets, map[string]any{"replicas": int64(3)}, copies...)
}

// going is an object that its user deletes.
func going(o Object) Object {
	o.Logical = o.Logical.DeepCopy()
	o.Logical.SetDeletionTimestamp(&metav1.Time{Time: noon})
	return o
}

// written is an object that was changed since its copies were looked at, and applies that they have that.
func written(o Object) Object {
	o.Logical = o.Logical.DeepCopy()
	o.Logical.SetGeneration(2)
	return o
}

func applies(o Object) Object {
	o.Copies = maps.Clone(o.Copies)
	for name, c := range o.Copies {
		o.Copies[name] = c.DeepCopy()
		o.Copies[name].Status.AppliedGeneration = o.Logical.GetGeneration()
	}
	return o
}

func TestAPhaseEndsWhenWhatFollowsIsSafe(t *testing.T) {
	const both = `{"east":{},"west":{}}`
	ready := web(both, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`)
	half := web(both, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":2}`)
	front := object(services, "front", both, nil, "east: Synced", "west: Synced")
	for _, c := range []struct {
		name    string
		phase   placementv1alpha1.TransitionPhase
		objects []Object
		change  func(*State)
		want    placementv1alpha1.TransitionPhase
		done    bool
		waits   string
	}{
		{"all is there", starting, []Object{ready}, nil, draining, false, ""},
		{"all is there, and has addresses", starting, []Object{ready, front}, nil, draining, false, ""},
		{"too few pods are available", starting, []Object{half}, nil, starting, false, "Deployment web on west: 2 of 3 pods are available"},
		{"no copy yet", starting, []Object{web(both, `east: Synced {"availableReplicas":3}`)}, nil, starting, false, "Deployment web on west: there is no copy yet"},
		{"not stamped yet", starting, []Object{ready}, func(s *State) { s.Stale = 2 }, starting, false, "2 objects have not got their targets"},
		{"a silent physical cluster is no replacement", starting, []Object{ready}, func(s *State) { s.NotReady = map[string]string{"west": "silent"} }, starting, false, "west: silent"},
		{"refused there", starting, []Object{web(both, `east: Synced {"availableReplicas":3}`, `west: Failed`)}, nil, starting, false, "Deployment web on west: it is not in place yet"},
		{"as broken as it was", starting, []Object{web(both, `east: Failed`, `west: Failed`)}, nil, draining, false, ""},
		{"in place nowhere yet, and nobody has tried", starting, []Object{web(both, `east: Pending`)}, nil, starting, false, "Deployment web on west: there is no copy yet"},
		{"in place nowhere yet, and it comes", starting, []Object{web(both, `east: Failed`, `west: Pending`)}, nil, starting, false, "Deployment web on west: it is not in place yet"},
		{"as unavailable as it was", starting, []Object{web(both, `east: Synced {"availableReplicas":1}`, `west: Synced {"availableReplicas":1}`)}, nil, draining, false, ""},
		{"a daemon waits for its nodes", starting, []Object{object(daemons, "d", both, nil, `east: Synced {"numberAvailable":2,"desiredNumberScheduled":2}`, `west: Synced {"numberAvailable":0,"desiredNumberScheduled":3}`)}, nil, starting, false, "DaemonSet d on west: 0 of 2 pods are available"},
		{"a service without endpoints", starting, []Object{front}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 1}} }, starting, false, "Service front on west: 0 of 1 endpoints are ready"},
		{"a service whose slices are behind its pods", starting, []Object{
			serviceOf("db", both, "east: Synced", "west: Synced"), set("db", both, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 3, "west": 2}} }, starting, false, "Service front on west: 2 of 3 endpoints are ready"},
		{"a service that has fewer pods there", starting, []Object{
			serviceOf("db", both, "east: Synced", "west: Synced"), set("db", both, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":2}`),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 3, "west": 2}} }, draining, false, ""},
		{"a service that had none either", starting, []Object{front}, nil, draining, false, ""},
		{"a service whose pods come later", starting, []Object{
			serviceOf("db", both, "east: Synced", "west: Synced"), set("db", `{"east":{},"west":{"state":"Waiting"}}`),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 1}} }, draining, false, ""},
		{"a service of which some pods come later", starting, []Object{
			serviceOf("db", both, "east: Synced", "west: Synced"), set("db", `{"east":{},"west":{"state":"Waiting"}}`), some("db", both, `east: Synced`, `west: Synced`),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 1}} }, starting, false, "Service front on west: 0 of 1 endpoints are ready"},
		{"a service whose ordinals come later", starting, []Object{
			serviceOf("db", both, "east: Synced", "west: Synced"),
			some("db", `{"east":{"replicas":1,"ordinals":{"start":0,"revision":1}},"west":{"replicas":0,"share":1,"ordinals":{"start":0,"revision":1}}}`, `east: Synced {"availableReplicas":1}`, "west: Synced"),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 1}} }, draining, false, ""},
		{"a service of which some ordinals are there", starting, []Object{
			serviceOf("db", both, "east: Synced", "west: Synced"),
			some("db", `{"east":{"replicas":1,"ordinals":{"start":1,"revision":1}},"west":{"replicas":1,"share":2,"ordinals":{"start":0,"revision":1}}}`, `east: Synced {"availableReplicas":1}`, `west: Synced {"availableReplicas":1}`),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 1}} }, starting, false, "Service front on west: 0 of 1 endpoints are ready"},
		{"a service whose pods are others than those that come later", starting, []Object{
			serviceOf("web", both, "east: Synced", "west: Synced"), set("db", `{"east":{},"west":{"state":"Waiting"}}`),
		}, func(s *State) { s.Endpoints = map[string]map[string]int{"front": {"east": 1}} }, starting, false, "Service front on west: 0 of 1 endpoints are ready"},
		{"a load balancer without an address", starting, []Object{ready, object(services, "front", both, map[string]any{"type": "LoadBalancer"}, "east: Synced "+address, "west: Synced {}")}, nil, starting, false, "Service front on west: it has no address"},
		{"a service of another type, of which a physical cluster says that it has one", starting, []Object{ready, object(services, "front", both, nil, "east: Synced "+address, "west: Synced {}")}, nil, draining, false, ""},
		{"a load balancer that had none either", starting, []Object{ready, object(services, "front", both, map[string]any{"type": "LoadBalancer"}, "east: Synced {}", "west: Synced {}")}, nil, draining, false, ""},
		{"an ingress without an address", starting, []Object{ready, object(ingresses, "front", both, nil, "east: Synced "+address, "west: Synced")}, nil, starting, false, "Ingress front on west: it has no address"},
		{"an ingress with an address", starting, []Object{ready, object(ingresses, "front", both, nil, "east: Synced "+address, "west: Synced "+address)}, nil, draining, false, ""},
		{"what runs once has no copy to wait for", starting, []Object{object(sets, "db", `{"east":{},"west":{"state":"Waiting"}}`, nil, `east: Synced {"availableReplicas":1}`)}, nil, draining, false, ""},
		{"the place does not answer: that is said before what lacks there", starting, []Object{web(both, `east: Synced {"availableReplicas":3}`), object(services, "a", both, nil, "east: Synced")}, func(s *State) { s.NotReady = map[string]string{"west": "silent"} }, starting, false, "west: silent; Deployment web on west: there is no copy yet; Service a on west: there is no copy yet"},
		{"an earlier removal there", starting, []Object{web(`{"east":{},"west":{"state":"Removing"}}`, `east: Synced {"availableReplicas":3}`)}, nil, starting, false, "Deployment web on west: an earlier removal has to end first"},
		{"a job of a CronJob runs", draining, []Object{object(cronJobs, "c", `{"east":{},"west":{"state":"Waiting"}}`, nil, `east: Synced {"active":[{"name":"j"}]}`)}, nil, draining, false, "CronJob c on east: a job of it runs to its end"},

		{"nothing has addresses", draining, []Object{ready}, nil, removing, false, ""},
		{"what has some is being deleted", draining, []Object{ready, going(front)}, nil, removing, false, ""},
		{"something was made meanwhile that has addresses", draining, []Object{ready, front}, nil, draining, false, "traffic was withdrawn from east, which has 10 s to end"},
		{"something was made meanwhile that is not there", draining, []Object{half}, nil, starting, false, "Deployment web on west: 2 of 3 pods are available"},
		{"something was written meanwhile", draining, []Object{written(ready), front}, nil, draining, false, "Deployment web on west: it is not in place yet"},
		{"something was written meanwhile, and its pods are gone", draining, []Object{written(half), front}, nil, starting, false, "Deployment web on west: 2 of 3 pods are available"},
		{"something was written, and only applied", draining, []Object{applies(written(ready)), front}, nil, draining, false, "Deployment web on west: its controller has not looked at it yet"},
		{"something is lost there", draining, []Object{web(both, `east: Synced {"availableReplicas":3}`, `west: Pending`), front}, nil, starting, false, "Deployment web on west: it is not in place yet"},
		{"something was made just before, and is nowhere yet", draining, []Object{web(both, `east: Pending`), front}, nil, draining, false, "Deployment web on west: there is no copy yet"},
		{"something is not stamped yet", draining, []Object{ready, front}, func(s *State) { s.Stale = 1 }, draining, false, "1 object has not got its targets"},
		{"something is refused there now", draining, []Object{object(ingresses, "i", both, nil, "east: Synced", "west: Failed"), front}, nil, starting, false, "Ingress i on west: it is not in place yet"},
		{"something new comes", draining, []Object{ready, front, object(ingresses, "i", `{"west":{}}`, nil)}, nil, draining, false, "Ingress i on west: there is no copy yet"},
		{"something new is refused there", draining, []Object{ready, object(ingresses, "i", `{"west":{}}`, nil, "west: Failed")}, nil, removing, false, ""},
		{"an autoscaler comes with the traffic", draining, []Object{ready, front, object(autoscalers, "a", both, nil, "east: Synced")}, nil, draining, false, "HorizontalPodAutoscaler a on west: there is no copy yet"},
		{"an autoscaler is refused there", draining, []Object{ready, front, object(autoscalers, "a", both, nil, "east: Synced", "west: Failed")}, nil, draining, false, "HorizontalPodAutoscaler a on west: it is not in place yet"},
		{"the time has not passed", draining, []Object{ready, front}, func(s *State) { s.Now = noon.Add(9 * time.Second) }, draining, false, "traffic was withdrawn from east, which has 10 s to end"},
		{"the time has passed, not since this server knows", draining, []Object{ready, front}, func(s *State) { s.Now, s.DrainsSince = noon.Add(13*time.Second), noon.Add(4*time.Second) }, draining, false, "traffic was withdrawn from east, which has 10 s to end"},
		{"the time has passed since this server knows", draining, []Object{ready, front}, func(s *State) { s.Now, s.DrainsSince = noon.Add(14*time.Second), noon.Add(4*time.Second) }, removing, false, ""},
		{"the time has passed", draining, []Object{ready, front}, func(s *State) { s.Now = noon.Add(10 * time.Second) }, removing, false, ""},
		{"the replacement is not available any more", draining, []Object{half, front}, func(s *State) { s.Now = noon.Add(time.Hour) }, starting, false, "Deployment web on west: 2 of 3 pods are available"},

		{"something is left", removing, []Object{web(`{"east":{"state":"Removing"},"west":{}}`)}, nil, removing, false, "1 object is not gone from east"},
		{"a job ends where it began", removing, []Object{object(jobs, "j", `{"east":{},"west":{"state":"Waiting"}}`, nil)}, nil, removing, false, "Job j on east runs to its end"},
		{"a job could not begin where it is", removing, []Object{refusedOnEast()}, nil, removing, false, "Job j on east has no copy there (NoRuntimeClass), and begins nowhere else; delete it, and make it again to have it run elsewhere"},
		{"a job of a CronJob began as it left", removing, []Object{jobRunsOnEast()}, nil, removing, false, "CronJob c on east: a job of it runs to its end"},
		{"nothing is left", removing, []Object{web(`{"west":{}}`)}, nil, removing, true, ""},
		{"nothing is left, but something waits", removing, []Object{web(`{"west":{"state":"Waiting"}}`)}, func(s *State) { s.Stale = 1 }, removing, false, "1 object has not got its targets"},
		{"only the namespace is left, and its deletion has not begun", removing, []Object{web(`{"west":{}}`), object(namespaces, "n", `{"east":{"state":"Removing"},"west":{}}`, nil, "east: Removing")}, nil, removing, false, "1 object is not gone from east"},
		{"only the namespace is left, and its deletion has begun", removing, []Object{web(`{"west":{}}`), terminating(`{"east":{"state":"Removing"},"west":{}}`)}, nil, removing, true, ""},
		{"only the namespace is left, for what a backup does not know", removing, []Object{web(`{"west":{}}`), keptForOrphans(`{"east":{"state":"Removing"},"west":{}}`)}, nil, removing, true, ""},
		{"it is silent by then", removing, []Object{web(`{"west":{}}`), terminating(`{"east":{"state":"Removing"},"west":{}}`)}, func(s *State) { s.NotReady = map[string]string{"east": "silent"} }, removing, true, ""},
		{"something is left beside the namespace", removing, []Object{web(`{"east":{"state":"Removing"},"west":{}}`), terminating(`{"east":{"state":"Removing"},"west":{}}`)}, nil, removing, false, "1 object is not gone from east"},
		{"the namespace is not to go yet", removing, []Object{terminating(`{"east":{},"west":{}}`)}, nil, removing, false, "1 object is not gone from east"},
		{"there is no time out", removing, []Object{web(`{"east":{"state":"Removing"},"west":{}}`)}, func(s *State) { s.Now = noon.AddDate(1, 0, 0) }, removing, false, "1 object is not gone from east"},
	} {
		t.Run(c.name, func(t *testing.T) {
			transition := &placementv1alpha1.Transition{Phase: c.phase, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 10}}
			s := State{Decided: []string{"west"}, Objects: c.objects, Now: noon}
			if c.change != nil {
				c.change(&s)
			}
			step := Next(transition, s)
			if step.Phase != c.want || step.Done != c.done {
				t.Errorf("%s, done %v; want %s, %v", step.Phase, step.Done, c.want, c.done)
			}
			if diff := cmp.Diff(c.waits, strings.Join(step.Waits, "; ")); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// A move to west that had come to its drain went back to its start, and then the user wanted
// another place: west has no traffic, but it is the only one that works.
func TestWhatWorksNowhereElseIsNotLeft(t *testing.T) {
	const all = `{"east":{},"north":{},"west":{}}`
	for name, c := range map[string]struct {
		object Object
		waits  string
	}{
		"in place nowhere else":  {web(all, "east: Failed", "north: Failed", `west: Synced {"availableReplicas":3}`), "Deployment web on east: it is not in place yet"},
		"available nowhere else": {web(all, `east: Synced {"availableReplicas":0}`, "north: Failed", `west: Synced {"availableReplicas":3}`), "Deployment web on east: 0 of 3 pods are available"},
		"it serves where it is":  {web(all, `east: Synced {"availableReplicas":1}`, "north: Failed", `west: Synced {"availableReplicas":3}`), ""},
		"or serves where it was": {web(all, `east: Synced {"availableReplicas":1}`, `north: Synced {"availableReplicas":1}`, `west: Synced {"availableReplicas":3}`), ""},
		"it works nowhere":       {web(all, "east: Failed", "north: Failed", "west: Failed"), ""},
		"it is to have no pods":  {object(deployments, "web", all, map[string]any{"replicas": int64(0)}, `east: Synced {"availableReplicas":0}`, "north: Failed", `west: Synced {"availableReplicas":0}`), ""},
	} {
		transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"north", "west"}, Withdrawn: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 10}}
		step := Next(transition, State{Decided: []string{"east"}, Objects: []Object{c.object}, Now: noon})
		if got := strings.Join(step.Waits, "; "); got != c.waits {
			t.Errorf("%s: %q, want %q", name, got, c.waits)
		}
	}
}

// No time, and nothing but a replacement that is as good, lets a removal begin.
func TestNoRemovalBeginsBecauseTimePasses(t *testing.T) {
	transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}}
	s := State{Decided: []string{"west"}, Objects: []Object{web(`{"east":{},"west":{}}`, `east: Synced {"availableReplicas":3}`)}}
	for _, years := range []int{0, 1, 100} {
		s.Now = noon.AddDate(years, 0, 0)
		if step := Next(transition, s); step.Phase != starting {
			t.Errorf("after %d years: %s", years, step.Phase)
		}
	}
}

func TestATransitionWithoutAnythingToLeaveEndsWithItsCopies(t *testing.T) {
	transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), To: []string{"west"}}
	s := State{Decided: []string{"east", "west"}, Objects: []Object{web(`{"east":{},"west":{}}`, "east: Synced", "west: Synced")}}
	if step := Next(transition, s); !step.Done {
		t.Errorf("it waits for %v", step.Waits)
	}
}

// onTheWay is a transition from east to west.
func onTheWay(phase placementv1alpha1.TransitionPhase) *placementv1alpha1.Transition {
	return &placementv1alpha1.Transition{Phase: phase, To: []string{"west"}, From: []string{"east"}}
}

func TestATransitionFollowsFromTheOneBefore(t *testing.T) {
	for _, c := range []struct {
		name                            string
		decided                         []string
		on                              *placementv1alpha1.Transition
		next                            []string
		wantTo, wantFrom, wantWithdrawn []string
		nothing, undecided              bool
	}{
		{name: "undecided", undecided: true, next: []string{"east"}, nothing: true},
		{name: "as before", decided: []string{"east"}, next: []string{"east"}, nothing: true},
		{name: "elsewhere", decided: []string{"east"}, next: []string{"west"}, wantTo: []string{"west"}, wantFrom: []string{"east"}},
		{name: "one more", decided: []string{"east"}, next: []string{"east", "west"}, wantTo: []string{"west"}},
		{name: "one less", decided: []string{"east", "west"}, next: []string{"east"}, wantFrom: []string{"west"}},

		{name: "back before it served", decided: []string{"west"}, on: onTheWay(starting), next: []string{"east"}, wantFrom: []string{"west"}, wantWithdrawn: []string{"west"}},
		{name: "back after it serves", decided: []string{"west"}, on: onTheWay(draining), next: []string{"east"}, wantTo: []string{"east"}, wantFrom: []string{"west"}},
		{name: "back while the old one goes", decided: []string{"west"}, on: onTheWay(removing), next: []string{"east"}, wantTo: []string{"east"}, wantFrom: []string{"west"}},
		{name: "elsewhere before it served", decided: []string{"west"}, on: onTheWay(starting), next: []string{"north"}, wantTo: []string{"north"}, wantFrom: []string{"east", "west"}, wantWithdrawn: []string{"west"}},
		{name: "elsewhere after it serves", decided: []string{"west"}, on: onTheWay(draining), next: []string{"north"}, wantTo: []string{"north"}, wantFrom: []string{"east", "west"}, wantWithdrawn: []string{"east"}},
		{name: "another of two on the way", decided: []string{"west", "north"}, on: onTheWay(starting), next: []string{"north", "west"}, wantTo: []string{"west"}, wantFrom: []string{"east"}},
		{name: "one more after it serves", decided: []string{"west"}, on: onTheWay(draining), next: []string{"north", "west"}, wantTo: []string{"north"}, wantFrom: []string{"east"}, wantWithdrawn: []string{"east"}},
		{
			name: "forth again before it is back", decided: []string{"east"}, next: []string{"west"},
			on:     &placementv1alpha1.Transition{Phase: starting, To: []string{"east"}, From: []string{"west"}},
			wantTo: nil, wantFrom: []string{"east"}, wantWithdrawn: []string{"east"},
		},
		{
			name: "back to what was withdrawn", decided: []string{"north"}, next: []string{"east"},
			on:     &placementv1alpha1.Transition{Phase: starting, To: []string{"north"}, From: []string{"east", "west"}, Withdrawn: []string{"east"}},
			wantTo: []string{"east"}, wantFrom: []string{"north", "west"}, wantWithdrawn: []string{"north"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := placementv1alpha1.PlacementSpec{Transition: c.on}
			if !c.undecided {
				spec.Decision = &placementv1alpha1.Decision{}
				for _, name := range c.decided {
					spec.Decision.PhysicalClusters = append(spec.Decision.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: name})
				}
			}
			got := Begin(spec, c.next, placementv1alpha1.CausePinned, placementv1alpha1.MoveTimes{DrainSeconds: 5}, noon)
			if c.nothing {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if !slices.Equal(got.To, c.wantTo) || !slices.Equal(got.From, c.wantFrom) || !slices.Equal(got.Withdrawn, c.wantWithdrawn) || got.Phase != starting || got.DrainSeconds != 5 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func controlled(o Object) Object {
	o.Logical.SetOwnerReferences([]metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "web", Controller: ptr.To(true)}})
	return o
}

func ended(o Object) Object {
	o.Logical.Object["status"] = map[string]any{"phase": "Succeeded"}
	return o
}

func TestWhatCannotMoveIsNamed(t *testing.T) {
	claims, pods := schema.GroupKind{Kind: "PersistentVolumeClaim"}, schema.GroupKind{Kind: "Pod"}
	objects := []Object{
		web(`{"east":{}}`),
		object(sets, "db", `{"east":{}}`, nil),
		object(claims, "data-db-0", `{"east":{"state":"Observed","uid":"1"}}`, nil),
		object(claims, "elsewhere", `{"north":{}}`, nil),
		object(claims, "handed", `{"east":{}}`, map[string]any{"storageClassName": "shared"}),
		object(sets, "takes", `{"east":{}}`, map[string]any{"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Delete"}, "volumeClaimTemplates": []any{map[string]any{}}}),
		object(jobs, "report", `{"east":{}}`, map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": []any{
			map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "handed"}}}}}}),
		object(pods, "shell", `{"east":{}}`, map[string]any{"restartPolicy": "Always"}),
		object(pods, "once", `{"east":{}}`, map[string]any{"restartPolicy": "Never"}),
		controlled(object(pods, "web-1", `{"east":{"state":"Observed","uid":"2"}}`, nil)),
		object(pods, "quarantined", `{"east":{"state":"Observed","uid":"3"}}`, map[string]any{"restartPolicy": "Always"}),
		ended(object(pods, "ended", `{"east":{"state":"Observed","uid":"4"}}`, nil)),
		object(replicaSets, "let-go", `{"east":{"state":"Observed","uid":"5"}}`, map[string]any{"replicas": int64(2)}),
		object(replicaSets, "of-before", `{"east":{"state":"Observed","uid":"6"}}`, map[string]any{"replicas": int64(0)}),
		object(replicaSets, "let-go-elsewhere", `{"north":{"state":"Observed","uid":"7"}}`, nil),
	}
	want := []string{
		"Job report on east: it runs to its end with a claim; wait for that, or delete it",
		"PersistentVolumeClaim data-db-0: its volume is on east and does not move (volumes of class slow do not move from east); delete the claim once its data are safe elsewhere",
		"Pod quarantined on east: nothing controls it any more, and nothing makes it elsewhere; delete it, or make again what controlled it",
		"Pod shell on east: no controller makes it again elsewhere; delete it, or make it by a Deployment",
		"ReplicaSet let-go on east: nothing controls it any more, and nothing makes it elsewhere; delete it, or make again what controlled it",
		"StatefulSet takes on east: it deletes its claims when it is removed there; set spec.persistentVolumeClaimRetentionPolicy.whenDeleted to Retain",
	}
	handed := func(claim Object, from string) string {
		if workload.ClassOfClaim(claim.Logical.Object) == "shared" {
			return ""
		}
		return "volumes of class slow do not move from " + from
	}
	if diff := cmp.Diff(want, Obstacles(objects, []string{"east"}, handed, func(string) bool { return false })); diff != "" {
		t.Errorf("obstacles (-want +got):\n%s", diff)
	}
	want = []string{
		"Job report: it was to run to its end on east, which was given up; delete it, and make it again to have it run elsewhere",
		"PersistentVolumeClaim data-db-0: its volume is on east, which was given up; delete the claim to go on without its data",
		"PersistentVolumeClaim handed: its volume is on east, which was given up; delete the claim to go on without its data",
		"Pod once: it was to run to its end on east, which was given up; delete it, and make it again to have it run elsewhere",
		"Pod shell on east: no controller makes it again elsewhere; delete it, or make it by a Deployment",
	}
	if diff := cmp.Diff(want, Obstacles(objects, []string{"east"}, handed, func(name string) bool { return name == "east" })); diff != "" {
		t.Errorf("obstacles on what was given up (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"StatefulSet db", "StatefulSet takes"}, StopsFirst(objects, []string{"east"}, func(Object) bool { return false })); diff != "" {
		t.Errorf("stop first (-want +got):\n%s", diff)
	}
}

func TestAnObjectIsBehindUntilItHasTheTargetsOfThePhase(t *testing.T) {
	unit := stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartArrives}
	for name, c := range map[string]struct {
		object Object
		want   bool
	}{
		"where it was":                      {web(`{"east":{}}`), true},
		"where it goes, too":                {web(`{"east":{},"west":{}}`), false},
		"what runs once, not stamped":       {object(sets, "db", `{"east":{}}`, nil), true},
		"what runs once, and waits":         {object(sets, "db", `{"east":{},"west":{"state":"Waiting"}}`, nil), false},
		"a Service that publishes early":    {object(services, "front", `{"east":{},"west":{}}`, nil), true},
		"a ConfigMap follows its referrers": {object(schema.GroupKind{Kind: "ConfigMap"}, "c", `{"east":{}}`, nil), false},
	} {
		c.object.Logical.SetNamespace("shop")
		c.object.Unit = unit
		if got := c.object.Behind("demo"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
