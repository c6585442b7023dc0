package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// mirrored is a policy by which east takes its images from elsewhere.
const mirrored = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: mirror}
spec:
  count: 2
  move: {drainSeconds: 1}
  overrides:
  - term: {matchLabels: {topology.kubernetes.io/region: east}}
    objects: {kinds: [{group: apps, kind: Deployment}]}
    patch:
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %s}
    - {op: add, path: /spec/template/spec/containers/0/env, value: [{name: REGION, value: east}]}
`

func TestAPolicyOverridesCopiesOnOnePhysicalCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"))
	shop := k.In("web")
	must(t)(shop.Apply(ctx, fmt.Sprintf(mirrored, "mirror.example.com/nginx")))
	must(t)(shop.Run(ctx, "create", "deployment", "web", "--image=nginx", "--replicas=2"))
	must(t)(shop.Run(ctx, "create", "deployment", "other", "--image=other"))

	expect := func(what, want string, run func() (string, error)) {
		t.Helper()
		eventually(t, func() error {
			got, err := run()
			if err == nil && got != want {
				err = fmt.Errorf("%s is %q, want %q", what, got, want)
			}
			return err
		})
	}
	above := func(args ...string) func() (string, error) {
		return func() (string, error) { return shop.Run(ctx, args...) }
	}
	const content = `jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[*].value} {.status.availableReplicas}`
	below := func(at *physicalCluster, name string) func() (string, error) {
		return func() (string, error) {
			namespace, err := k.Run(ctx, "get", "namespace", "web", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`)
			if err != nil {
				return "", err
			}
			return at.In(namespace).Run(ctx, "get", "deployment", name, "-o", content)
		}
	}
	// Copies are named by UIDs: those of the objects below stay, nothing is made again.
	made := func() string {
		return must(t)(shop.Run(ctx, "get", "copies", "-o", `jsonpath={range .items[?(@.spec.object.kind=="Deployment")]}{.spec.object.name} {.spec.physicalCluster} {.status.physicalUID} {end}`))
	}

	expect("web below east", "mirror.example.com/nginx east 2", below(theLab.east, "web"))
	expect("web below west", "nginx  2", below(theLab.west, "web"))
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	expect("the object", "nginx  4", above("get", "deployment", "web", "-o", content))
	expect("what is mirrored of its history", "nginx nginx", above("get", "replicasets", "-l", "app=web", "-o", `jsonpath={.items[*].spec.template.spec.containers[0].image}`))
	eventually(t, func() error {
		out, err := shop.Run(ctx, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}")
		if err == nil && (strings.Count(out, "mirror.example.com/nginx") != 2 || len(strings.Fields(out)) != 4) {
			err = fmt.Errorf("the pods have the images %s", out)
		}
		return err
	})
	was := made()

	// An edit reaches the copy that runs.
	must(t)(shop.Apply(ctx, fmt.Sprintf(mirrored, "other.example.com/nginx")))
	expect("web below east", "other.example.com/nginx east 2", below(theLab.east, "web"))
	expect("web below west", "nginx  2", below(theLab.west, "web"))
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))

	// What users write themselves goes on beside it.
	must(t)(shop.Run(ctx, "set", "env", "deployment/other", "A=B"))
	expect("other below east", "other.example.com/nginx east 1", below(theLab.east, "other"))
	must(t)(shop.Run(ctx, "scale", "deployment", "web", "--replicas=3"))
	expect("web below east", "other.example.com/nginx east 3", below(theLab.east, "web"))

	// One that does not apply leaves what is there, and says which it is; other objects go on.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "mirror", "--type=json", "-p",
		`[{"op":"add","path":"/spec/overrides/-","value":{"objects":{"names":["web"]},"patch":[{"op":"replace","path":"/spec/template/spec/nodeSelector/disk","value":"ssd"}]}}]`))
	const failed = `jsonpath={range .items[?(@.status.state=="Failed")]}{.spec.object.name} {.spec.physicalCluster} {.status.reason} {.status.message};{end}`
	eventually(t, func() error {
		out, err := shop.Run(ctx, "get", "copies", "-o", failed)
		if err == nil && (strings.Count(out, ";") != 2 || strings.Count(out, "OverrideFailed overrides[1] of policy mirror of the namespace: patch[0], replace /spec/template/spec/nodeSelector/disk: there is no \"nodeSelector\"") != 2) {
			err = fmt.Errorf("failed: %s", out)
		}
		return err
	})
	must(t)(shop.Run(ctx, "set", "env", "deployment/other", "A=C"))
	expect("other below west", "other C 1", below(theLab.west, "other"))
	expect("web below east", "other.example.com/nginx east 3", below(theLab.east, "web"))
	// The answer to a write says so, too.
	warned, err := shop.Command(ctx, "annotate", "deployment", "web", "a=b").CombinedOutput()
	if err != nil || !strings.Contains(string(warned), "Warning: nothing of this goes to west: overrides[1] of policy mirror") {
		t.Errorf("no warning: %s, %v", warned, err)
	}
	out := must(t)(shop.Run(ctx, "get", "placement", "namespace", "-o", `jsonpath={range .spec.decision.overrides[*]}{.name} {.physicalClusters};{end}`))
	if want := `overrides[0] of policy mirror of the namespace ["east"];overrides[1] of policy mirror of the namespace ["east","west"];`; out != want {
		t.Errorf("the decision has %s, want %s", out, want)
	}

	// Without overrides copies are what the user wrote.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "mirror", "--type=json", "-p", `[{"op":"remove","path":"/spec/overrides"}]`))
	expect("web below east", "nginx  3", below(theLab.east, "web"))
	expect("other below east", "other C 1", below(theLab.east, "other"))
	expect("failed copies", "", above("get", "copies", "-o", failed))
	if is := made(); is != was {
		t.Errorf("copies were made again: %s, before %s", is, was)
	}

	// What may not be overridden is refused by its field.
	if _, err := shop.Run(ctx, "patch", "placementpolicy", "mirror", "--type=merge", "-p",
		`{"spec":{"overrides":[{"patch":[{"op":"replace","path":"/spec/replicas","value":9}]}]}}`); err == nil || !strings.Contains(err.Error(), "spec.overrides[0].patch[0].path") {
		t.Errorf("replicas were overridden: %v", err)
	}
}

// permitting is a policy of an admin by which the logical clusters with a label may run what nobody
// else may.
const permitting = `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: %s}
spec:
  logicalClusterSelector: {matchLabels: {agents: %s}}
  overrides:
  - term: {matchLabels: {topology.kubernetes.io/region: east}}
    permits: {podSecurity: privileged}
`

const agent = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: a, image: nginx, securityContext: {privileged: true}, volumeMounts: [{name: host, mountPath: /host}]}]
      volumes: [{name: host, hostPath: {path: /var/log}}]
`

// What an admin permits to one logical cluster goes down there, on the physical clusters that the
// policy names: the namespace below has the level, and takes the pods.
func TestAPolicyPermitsMoreToOneLogicalCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	other := theLab.newCluster(t)
	for _, l := range []process.Kubectl{k, other} {
		must(t)(l.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"))
	}
	name := strings.TrimSuffix(filepath.Base(k.Kubeconfig), ".kubeconfig")
	must(t)(theLab.root.Run(ctx, "label", "logicalcluster", name, "agents="+name))
	must(t)(theLab.root.Apply(ctx, fmt.Sprintf(permitting, name, name)))
	t.Cleanup(func() { _, _ = theLab.root.Run(ctx, "delete", "clusterplacementpolicy", name) })

	eventually(t, func() error { // the policy is known a moment after it was made
		_, err := k.In("web").Apply(ctx, agent)
		return err
	})
	must(t)(k.In("web").Run(ctx, "rollout", "status", "deployment/agent", "--timeout=3m"))
	namespace := must(t)(k.Run(ctx, "get", "namespace", "web", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`))
	if level := must(t)(theLab.east.Run(ctx, "get", "namespace", namespace, "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`)); level != "privileged" {
		t.Errorf("the level below is %q", level)
	}
	if got := must(t)(theLab.east.In(namespace).Run(ctx, "get", "pods", "-o", `jsonpath={.items[*].spec.containers[*].securityContext.privileged} {.items[*].spec.volumes[?(@.name=="host")].hostPath.path}`)); got != "true /var/log" {
		t.Errorf("the pod below has %q", got)
	}
	if _, err := other.In("web").Apply(ctx, agent); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("in another logical cluster: %v", err)
	}
	if out := must(t)(plugin(ctx, k.In("web"), "explain", "web")); !strings.Contains(out, `more is permitted: {"podSecurity":"privileged"`) {
		t.Errorf("it is not explained: %s", out)
	}
	// A pod of a controller is debugged as what it is, which the policy permits.
	pod := must(t)(k.In("web").Run(ctx, "get", "pods", "-l", "app=agent", "-o", "jsonpath={.items[0].metadata.name}"))
	if out, err := k.In("web").Run(ctx, "debug", pod, "--image=busybox", "--profile=sysadmin", "--container=look", "--attach=false"); err != nil {
		t.Errorf("debugging: %v, %s", err, out)
	}
	// Without the permit what is there stays, and its copy says why.
	must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", name))
	eventually(t, func() error {
		out, err := k.In("web").Run(ctx, "get", "copies", "-o", `jsonpath={.items[?(@.spec.object.kind=="Deployment")].status.reason}`)
		if err == nil && out != "NotPermitted" {
			err = fmt.Errorf("the reason of the copy is %q", out)
		}
		return err
	})
	if got := must(t)(theLab.east.In(namespace).Run(ctx, "get", "deployment", "agent", "-o", "jsonpath={.status.availableReplicas}")); got != "1" {
		t.Errorf("%q pods are left", got)
	}
}
