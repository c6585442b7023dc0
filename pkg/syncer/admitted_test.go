package syncer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func podOf(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{}
	if err := pod.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	return pod
}

const madeBelow = `
apiVersion: v1
kind: Pod
metadata:
  generateName: app-
  namespace: shop-web-1
  labels: {app: app, atoll.dev/managed-by: cp}
  annotations: {atoll.dev/service-account: robot, atoll.dev/server: 10.0.0.1 443, atoll.dev/account-uid: u1}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: app, uid: r1, controller: true}]
spec:
  serviceAccountName: default
  automountServiceAccountToken: false
  priority: 7
  tolerations: [{key: node.kubernetes.io/disk-pressure, operator: Exists, effect: NoSchedule}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}
  containers:
  - name: c
    image: app
    env: [{name: KUBERNETES_SERVICE_HOST, value: 10.0.0.1}, {name: OWN, value: x}]
    volumeMounts: [{name: kube-api-access-atoll, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
  volumes:
  - name: kube-api-access-atoll
    projected: {sources: [{secret: {name: atoll-token-1}}]}
`

// admitted is the pod that comes of madeBelow when the admission above changes it.
func admitted(t *testing.T, change func(pod map[string]any)) (*unstructured.Unstructured, []boundary.Finding) {
	t.Helper()
	pods, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "Pod"})
	deployments, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	made := podOf(t, madeBelow)
	before := PodAbove(pods, made, "web", func(types.UID) (Owner, bool) { return Owner{}, false })
	after := before.DeepCopy()
	change(after.Object)
	a := Admission{Pod: pods, Made: made, Before: before, After: after,
		Placing: Placing{Ref: Ref{Kind: deployments, Cluster: "shop", Namespace: "web", Name: "app"}, ControlPlane: "cp", Namespace: "shop-web-1"}}
	out, findings, err := a.Admitted()
	if err != nil {
		t.Fatal(err)
	}
	return out, findings
}

func add(pod map[string]any, list string, item string) {
	value := map[string]any{}
	if err := yaml.Unmarshal([]byte(item), &value); err != nil {
		panic(err)
	}
	spec := field(pod, "spec")
	items, _ := spec[list].([]any)
	spec[list] = append(items, any(value))
}

func TestAPodAboveIsAsItWouldBeMadeThere(t *testing.T) {
	_, findings := admitted(t, func(pod map[string]any) {
		spec := field(pod, "spec")
		if spec["serviceAccountName"] != "robot" {
			t.Errorf("its account is %v", spec["serviceAccountName"])
		}
		if diff := cmp.Diff([]any{map[string]any{"name": "OWN", "value": "x"}}, list(spec, "containers")[0]["env"]); diff != "" {
			t.Errorf("its environment (-want +got):\n%s", diff)
		}
		if spec["volumes"] != nil || field(pod, "metadata")["namespace"] != "web" || field(field(pod, "metadata"), "annotations") != nil {
			t.Errorf("it shows the physical cluster: %v", pod)
		}
	})
	if len(boundary.Refusals(findings)) != 0 {
		t.Error(findings)
	}
}

func TestAnAdmissionThatChangesNothingChangesNothing(t *testing.T) {
	out, findings := admitted(t, func(map[string]any) {})
	if patch, err := PodPatch(podOf(t, madeBelow), out); err != nil || patch != nil || len(boundary.Refusals(findings)) != 0 {
		t.Errorf("%s, %v, %v", patch, findings, err)
	}
}

func TestASidecarIsAddedToThePodThatIsMade(t *testing.T) {
	out, findings := admitted(t, func(pod map[string]any) {
		add(pod, "containers", "{name: sidecar, image: proxy}")
		add(pod, "volumes", "{name: shared, emptyDir: {}}")
		add(pod, "tolerations", "{key: node.kubernetes.io/not-ready, operator: Exists}")
		setNested(pod, "yes", "metadata", "labels", "injected")
		setNested(pod, "evil", "metadata", "labels", "atoll.dev/managed-by")
		setNested(pod, "yes", "metadata", "annotations", "note")
		setNested(pod, "other", "metadata", "name")
	})
	if len(boundary.Refusals(findings)) != 0 {
		t.Fatal(findings)
	}
	spec := field(out.Object, "spec")
	containers := list(spec, "containers")
	if len(containers) != 2 || len(list(spec, "volumes")) != 2 || len(list(spec, "tolerations")) != 2 || spec["affinity"] == nil {
		t.Errorf("%v", spec)
	}
	for _, c := range containers { // a sidecar works with its logical cluster as the others do
		if len(list(c, "volumeMounts")) != 1 || len(list(c, "env")) == 0 {
			t.Errorf("container %v", c)
		}
	}
	want := map[string]string{"app": "app", "injected": "yes", "atoll.dev/managed-by": "cp"}
	if diff := cmp.Diff(want, out.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if out.GetAnnotations()["note"] != "yes" || out.GetAnnotations()["atoll.dev/account-uid"] != "u1" || out.GetName() != "" || len(out.GetOwnerReferences()) != 1 {
		t.Errorf("metadata %v", out.Object["metadata"])
	}
}

func TestNothingComesWithAPodThatCouldNotComeWithItsTemplate(t *testing.T) {
	set := func(value any, path ...string) func(map[string]any) {
		return func(pod map[string]any) { setNested(pod, value, append([]string{"spec"}, path...)...) }
	}
	item := func(list, manifest string) func(map[string]any) {
		return func(pod map[string]any) { add(pod, list, manifest) }
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		says   string
	}{
		"a directory of the node":       {item("volumes", "{name: h, hostPath: {path: /}}"), "hostPath"},
		"the network of the node":       {set(true, "hostNetwork"), "hostNetwork"},
		"a privileged container":        {item("containers", "{name: p, image: p, securityContext: {privileged: true}}"), "violates PodSecurity"},
		"a port of the node":            {item("containers", "{name: p, image: p, ports: [{containerPort: 1, hostPort: 1}]}"), "hostPort"},
		"a node":                        {set("n2", "nodeName"), "spec.nodeName"},
		"an instruction to a patch":     {func(pod map[string]any) { setNested(pod, "delete", "metadata", "annotations", "$patch") }, "metadata.annotations.$patch"},
		"one among labels":              {func(pod map[string]any) { setNested(pod, "replace", "metadata", "labels", "$patch") }, "metadata.labels.$patch"},
		"one among limits":              {item("containers", `{name: p, image: p, resources: {limits: {"$retainKeys": "1"}}}`), "$retainKeys"},
		"another account":               {set("admin", "serviceAccountName"), "spec.serviceAccountName"},
		"another class of priority":     {set("high", "priorityClassName"), "spec.priorityClassName"},
		"a token of its own":            {item("volumes", "{name: t, projected: {sources: [{serviceAccountToken: {path: t, audience: vault}}]}}"), "a token that the template does not name"},
		"nodes by what one may not ask": {set("x", "nodeSelector", "kubernetes.io/hostname"), "spec.nodeSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			out, findings := admitted(t, c.change)
			refusals := boundary.Refusals(findings)
			if len(refusals) == 0 || out != nil || !strings.Contains(refusals[0].String(), c.says) {
				t.Errorf("%v", findings)
			}
		})
	}
}

// A webhook of the physical cluster may have put in what tenants may not; it is no cover.
func TestWhatThePhysicalClusterPutIntoAPodIsNotForTenantsToChange(t *testing.T) {
	pods, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "Pod"})
	made := podOf(t, madeBelow)
	add(made.Object, "containers", "{name: agent, image: agent, securityContext: {privileged: true}}")
	add(made.Object, "volumes", "{name: host, hostPath: {path: /}}")
	for name, c := range map[string]struct {
		change  func(map[string]any)
		refused bool
	}{
		"a label":                {func(pod map[string]any) { setNested(pod, "b", "metadata", "labels", "a") }, false},
		"a container beside":     {func(pod map[string]any) { add(pod, "containers", "{name: s, image: s}") }, false},
		"the image of the agent": {func(pod map[string]any) { list(field(pod, "spec"), "containers")[1]["image"] = "evil" }, true},
		"the directory": {func(pod map[string]any) {
			setNested(list(field(pod, "spec"), "volumes")[0], "/etc", "hostPath", "path")
		}, true},
		"one more of the kind":     {func(pod map[string]any) { add(pod, "volumes", "{name: other, hostPath: {path: /}}") }, true},
		"another one of that name": {func(pod map[string]any) { list(field(pod, "spec"), "containers")[1]["command"] = []any{"sh"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before := PodAbove(pods, made, "web", func(types.UID) (Owner, bool) { return Owner{}, false })
			after := before.DeepCopy()
			c.change(after.Object)
			out, findings, err := Admission{Pod: pods, Made: made, Before: before, After: after, Placing: Placing{Ref: Ref{Kind: pods}}}.Admitted()
			if err != nil || c.refused != (len(boundary.Refusals(findings)) > 0) || c.refused == (out != nil) {
				t.Errorf("%v, %v", findings, err)
			}
		})
	}
}

// What LeaderWorkerSet does to the pods of its StatefulSets: it labels them, tells containers
// about the group and keeps groups apart.
func TestWhatAnOperatorChangesOfAContainerThatIsThere(t *testing.T) {
	out, findings := admitted(t, func(pod map[string]any) {
		c := list(field(pod, "spec"), "containers")[0]
		c["env"] = append([]any{map[string]any{"name": "LEADER", "value": "a-0.a"}}, c["env"].([]any)...)
		setNested(pod, "0", "metadata", "labels", "leaderworkerset.sigs.k8s.io/group-index")
		setNested(pod, []any{map[string]any{
			"topologyKey": "kubernetes.io/hostname", "labelSelector": map[string]any{"matchLabels": map[string]any{"group": "0"}},
		}}, "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	})
	if len(boundary.Refusals(findings)) != 0 {
		t.Fatal(findings)
	}
	spec := field(out.Object, "spec")
	env := map[string]any{}
	for _, e := range list(list(spec, "containers")[0], "env") {
		env[text(e, "name")] = e["value"]
	}
	if env["LEADER"] != "a-0.a" || env["OWN"] != "x" || env["KUBERNETES_SERVICE_HOST"] != "10.0.0.1" {
		t.Errorf("environment %v", env)
	}
	affinity := field(spec, "affinity")
	if affinity["podAntiAffinity"] == nil || affinity["nodeAffinity"] == nil || out.GetLabels()["leaderworkerset.sigs.k8s.io/group-index"] != "0" {
		t.Errorf("%v, %v", affinity, out.GetLabels())
	}
}

// Lists are merged by names that are looked for one by one, and what a webhook answers is as
// long as its tenant likes.
func TestAPodWithMoreItemsThanAreMergedIsRefusedIfItWasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		env     int
		refused bool
	}{"as many as a pod has": {maxItems / 4, false}, "too many": {maxItems, true}, "as many as fit into an answer": {50 * maxItems, true}} {
		t.Run(name, func(t *testing.T) {
			env := make([]any, c.env)
			for i := range env {
				env[i] = map[string]any{"name": fmt.Sprint("A", i)}
			}
			out, findings := admitted(t, func(pod map[string]any) { list(field(pod, "spec"), "containers")[0]["env"] = env })
			if c.refused != (len(boundary.Refusals(findings)) > 0) || c.refused == (out != nil) {
				t.Errorf("%v", findings)
			}
		})
	}
}
