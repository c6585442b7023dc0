package syncer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// reportOf is the status that the Copy on a target reports of a Service.
func reportOf(t *testing.T, target, above, below string) *runtime.RawExtension {
	t.Helper()
	p := planner{Input: Input{Ref: Ref{Kind: kinds["Service"]}, Target: target, Logical: parse(t, above), Physical: parse(t, "apiVersion: v1\nkind: Service\n"+below)}}
	return p.statusBelow()
}

func TestPortsOfNodesAreReportedWhereTheyAreOthers(t *testing.T) {
	const above = "apiVersion: v1\nkind: Service\nspec: {type: NodePort, ports: [{port: 80, protocol: TCP, nodePort: 30080}, {port: 53, protocol: UDP, nodePort: 30053}]}"
	const since = `"lastTransitionTime":"2026-01-01T00:00:00Z"`
	condition := func(rest, message string) string {
		return `{"conditions":[` + rest + `{` + since + `,"message":"` + message + `","reason":"ChosenThere","status":"True","type":"atoll.dev/NodePorts"}],"loadBalancer":{}}`
	}
	for name, c := range map[string]struct{ spec, status, want string }{
		"the same":          {"ports: [{port: 80, protocol: TCP, nodePort: 30080}, {port: 53, protocol: UDP, nodePort: 30053}]", "loadBalancer: {}", `{"loadBalancer":{}}`},
		"none":              {"ports: [{port: 80}, {port: 53, protocol: UDP}]", "loadBalancer: {}", `{"loadBalancer":{}}`},
		"one is another":    {"ports: [{port: 80, protocol: TCP, nodePort: 31234}, {port: 53, protocol: UDP, nodePort: 30053}]", "loadBalancer: {}", condition("", "on nodes of east 80/TCP is 31234")},
		"all are":           {"ports: [{port: 80, nodePort: 31234}, {port: 53, protocol: UDP, nodePort: 31235}]", "loadBalancer: {}", condition("", "on nodes of east 80/TCP is 31234, 53/UDP is 31235")},
		"of other ports":    {"ports: [{port: 80, protocol: TCP, nodePort: 30080}, {port: 9999, protocol: TCP, nodePort: 31235}]", "loadBalancer: {}", `{"loadBalancer":{}}`},
		"what it says else": {"ports: [{port: 80, nodePort: 31234}]", "loadBalancer: {}, conditions: [{type: Ready, status: 'True'}]", condition(`{"status":"True","type":"Ready"},`, "on nodes of east 80/TCP is 31234")},
		"what it forges":    {"ports: [{port: 80, nodePort: 31234}]", "loadBalancer: {}, conditions: [{type: atoll.dev/NodePorts, status: 'True'}]", condition("", "on nodes of east 80/TCP is 31234")},
	} {
		below := "metadata: {creationTimestamp: '2026-01-01T00:00:00Z'}\nspec: {" + c.spec + "}\nstatus: {" + c.status + "}"
		if diff := cmp.Diff(c.want, string(reportOf(t, "east", above, below).Raw)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestAServiceShowsThePortsOfNodesOfEachTarget(t *testing.T) {
	const above = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, uid: u, annotations: {placement.atoll.dev/targets: '{"east":{},"north":{},"west":{}}'}}
spec: {type: NodePort, ports: [{port: 80, protocol: TCP, nodePort: 30080}]}`
	logical := parse(t, above)
	var copies []*placementv1alpha1.Copy
	for target, port := range map[string]string{"east": "31000", "north": "30080", "west": "32000"} {
		report := reportOf(t, target, above, "metadata: {creationTimestamp: '2026-01-01T00:00:00Z'}\nspec: {ports: [{port: 80, nodePort: "+port+"}]}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}")
		copies = append(copies, &placementv1alpha1.Copy{
			Spec:   placementv1alpha1.CopySpec{PhysicalCluster: target, Object: placementv1alpha1.ObjectReference{UID: "u"}},
			Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, Observed: report},
		})
	}
	want := map[string]any{
		"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "192.0.2.1"}}},
		"conditions": []any{map[string]any{"type": NodePortsCondition, "status": "True", "reason": "ChosenThere", "lastTransitionTime": "2026-01-01T00:00:00Z",
			"message": "on nodes of east 80/TCP is 31000; on nodes of west 80/TCP is 32000"}},
	}
	status, changed := Summarize(kinds["Service"], logical, copies, someTime)
	if diff := cmp.Diff(want, status); diff != "" || !changed {
		t.Errorf("changed %t (-want +got)\n%s", changed, diff)
	}
	logical.Object["status"] = status
	if _, changed := Summarize(kinds["Service"], logical, copies, someTime); changed {
		t.Error("it is written again and again")
	}

	// A target without traffic publishes none, as it does no address.
	one := parse(t, above)
	one.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Draining"},"north":{}}`})
	status, _ = Summarize(kinds["Service"], one, copies, someTime)
	if status["conditions"] != nil {
		t.Errorf("conditions %v", status["conditions"])
	}
}

func TestAServiceThatAsksForAPortSaysThatItGotAnother(t *testing.T) {
	asks := func(note string) func(*Input) {
		return func(in *Input) {
			for _, obj := range []*unstructured.Unstructured{in.Logical, in.Physical} {
				setNested(obj.Object, []any{map[string]any{"port": int64(80), "protocol": "TCP", "nodePort": int64(30080)}}, "spec", "ports")
			}
			setNested(in.Physical.Object, []any{map[string]any{"port": int64(80), "protocol": "TCP"}}, "spec", "ports")
			annotations := in.Logical.GetAnnotations()
			annotations[placementv1alpha1.NodePortsAnnotation] = note
			in.Logical.SetAnnotations(annotations)
			in.Applied = true
		}
	}
	for note, want := range map[string]string{"": "WriteCopy Synced", "30080": "WriteCopy Synced/Adjusted"} {
		s := situation{kind: "Service", logical: "live", copy: "Pending", physical: "old", edit: asks(note)}
		if got := describe(Plan(s.input())); got != want {
			t.Errorf("asked for %q: got %s, want %s", note, got, want)
		}
	}
}
