package syncer

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestEachNameOfSemanticsMeansSomething(t *testing.T) {
	used := map[workload.Semantics]bool{}
	for _, k := range workload.Builtin().All() {
		used[k.Semantics] = true
	}
	for _, name := range workload.AllSemantics() {
		if reflect.ValueOf(semanticsOf(workload.Kind{Semantics: name})).IsZero() {
			t.Errorf("%s: nothing happens", name)
		}
		if !used[name] {
			t.Errorf("%s: no kind has it", name)
		}
	}
	if !reflect.ValueOf(semanticsOf(workload.Kind{})).IsZero() {
		t.Error("something happens to kinds without semantics")
	}
}

// A kind that only fields describe goes down, is summarized and ends as they say.
func TestAKindOfWhichOnlyFieldsSpeak(t *testing.T) {
	rollout := workload.Kind{
		Resource: "rollouts", Role: workload.Placed,
		PodTemplate: []string{"spec", "workload", "template"}, Replicas: []string{"spec", "size"}, Recreate: true,
		RuntimeFields: [][]string{{"spec", "node"}}, TTL: []string{"spec", "ttl"}, Finished: workload.Finished{Conditions: []string{"Done"}},
		Status: workload.Status{Generation: true, Counters: []string{"pods"}, Required: []string{"pods"}, Latest: []string{"since"}},
	}
	rollout.Group, rollout.Version, rollout.Kind = "example.com", "v1", "Rollout"
	obj := parse(t, `
apiVersion: example.com/v1
kind: Rollout
metadata: {name: web, namespace: web, uid: u, generation: 2, annotations: {placement.atoll.dev/targets: '{"east":{},"west":{}}'}}
spec: {size: 6, node: n1, ttl: 10, keep: me, workload: {template: {spec: {serviceAccountName: robot}}}}
`)
	size := int32(4)
	below, _ := Transform(obj, Placing{Ref: Ref{Kind: rollout, Cluster: "shop", Namespace: "web", Name: "web"}, ControlPlane: controlPlane, Namespace: "shop-web-1",
		Target: placementv1alpha1.Target{Replicas: &size}})
	spec := below.Object["spec"].(map[string]any)
	if spec["size"] != int64(4) || spec["node"] != nil || spec["ttl"] != nil || spec["keep"] != "me" {
		t.Errorf("below it is %v", spec)
	}
	if got := descend(spec, []string{"workload", "template", "spec"})["serviceAccountName"]; got != nil {
		t.Errorf("its pods run as %v below", got)
	}
	copies := copiesOf(t, `
- {physicalCluster: east, uid: u, state: Synced, generation: 1, status: {pods: 1, since: "2026-01-01T00:00:00Z", observedGeneration: 7, conditions: [{type: Done, status: "True"}]}}
- {physicalCluster: west, uid: u, state: Synced, generation: 2, status: {pods: 3, since: "2026-01-02T00:00:00Z", observedGeneration: 9, conditions: [{type: Done, status: "False", message: busy}]}}
`)
	if !finished(rollout, copies[0]) || finished(rollout, copies[1]) {
		t.Error("it has ended in the east, and only there")
	}
	status, _ := Summarize(rollout, obj, copies, someTime)
	want := map[string]any{
		"pods": int64(4), "since": "2026-01-02T00:00:00Z", "observedGeneration": int64(1),
		"conditions": []any{map[string]any{"type": "Done", "status": "False", "message": "west: busy"}},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("its status (-want +got)\n%s", diff)
	}
}
