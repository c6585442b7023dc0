package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// stagedPolicy, in root, lets a namespace be on three physical clusters, of which a test has
// one to itself.
const stagedPolicy = `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: staged}
spec:
  namespaceSelector: {matchLabels: {e2e: staged}}
  terms:
    - matchExpressions: [{key: topology.kubernetes.io/region, operator: In, values: [east, west]}]
    - matchLabels: {e2e: staged}
  tolerations: [{key: e2e, operator: Exists}]
  count: 3
  move: {drainSeconds: 1}
`

// staged is a Deployment with what it refers to.
const staged = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: %[2]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: "web:%[1]s", resources: {requests: {cpu: %[3]s}}, envFrom: [{configMapRef: {name: settings}}]}]
`

// TestAChangeReachesThreePhysicalClustersInWaves types the commands of docs/rollout.md.
func TestAChangeReachesThreePhysicalClustersInWaves(t *testing.T) {
	t.Parallel()
	if err := process.Missing("kubectl-atoll"); err != nil {
		t.Skip(err)
	}
	ctx := context.Background()
	canary, err := theLab.startPhysical(ctx, "canary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = canary.Stop() })
	if err := theLab.register(ctx, "canary", canary.Kubeconfig, "{key: e2e, value: staged, effect: NoSchedule}"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/canary", "--timeout=3m")) })
	must(t)(theLab.root.Run(ctx, "label", "physicalcluster/canary", "e2e=staged", "stage=canary"))
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/canary"))
	must(t)(theLab.root.Apply(ctx, stagedPolicy))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "staged")) })

	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {e2e: staged}}}"))
	shop := k.In("web")
	page, err := os.ReadFile(filepath.Join(process.Root(), "docs", "rollout.md"))
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if policy == nil {
		t.Fatal("docs/rollout.md has no policy")
	}
	must(t)(shop.Apply(ctx, string(policy[1])))
	commands := pageCommands(t, string(page))
	typed := func(command string) string {
		t.Helper()
		if !commands[command] {
			t.Fatalf("docs/rollout.md does not show %q", command)
		}
		out, err := typeAt(ctx, shop, command)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return out
	}
	apply := func(version, color, cpu string) {
		t.Helper()
		must(t)(shop.Apply(ctx, fmt.Sprintf(staged, version, color, cpu)))
	}
	apply("1", "blue", "1m")

	namespace := physicalNamespace(t, k, "web")
	places := []*physicalCluster{canary, theLab.east, theLab.west}
	// runs says what is below, in that order: image, color, and how many pods are available.
	runs := func(want ...string) func() error {
		return func() error {
			for i, at := range places {
				image, err := at.In(namespace).Run(ctx, "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
				if err != nil {
					return err
				}
				color, err := at.In(namespace).Run(ctx, "get", "configmap", "settings", "-o", "jsonpath={.data.color}")
				if err != nil {
					return err
				}
				if got := image + " " + color; got != want[i] {
					return fmt.Errorf("below %s is %q, want %q", at.name, got, want[i])
				}
			}
			return nil
		}
	}
	rolledOut := func(reason string) func() error {
		return func() error {
			out, err := shop.Run(ctx, "get", "placement", "namespace", "-o", `jsonpath={.status.conditions[?(@.type=="RolledOut")].reason}: {.status.conditions[?(@.type=="RolledOut")].message}`)
			if err == nil && !strings.HasPrefix(out, reason+":") {
				err = fmt.Errorf("it is %s, want %s", out, reason)
			}
			return err
		}
	}
	eventually(t, runs("web:1 blue", "web:1 blue", "web:1 blue"))
	eventually(t, rolledOut("RolledOut"))
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))

	// A version 2 that does not run stops on the first one, and says why.
	apply("2", "red", `"9000"`) // no node has so many
	eventually(t, runs("web:2 red", "web:1 blue", "web:1 blue"))
	eventually(t, rolledOut("Unhealthy"))
	if out := typed("kubectl atoll rollout status web"); !strings.Contains(out, "wave 1 of 3 has it") || !strings.Contains(out, "Deployment web on canary: ") {
		t.Errorf("the status is %s", out)
	}
	if out, err := typeAt(ctx, shop, "kubectl atoll rollout approve web"); err == nil || !strings.Contains(out, "--force") {
		t.Errorf("it was approved, though it is not healthy: %s", out)
	}
	// Also when a copy is deleted below, or changed, and when the notes are taken off above.
	must(t)(theLab.east.In(namespace).Run(ctx, "delete", "deployment", "web", "--cascade=foreground"))
	must(t)(theLab.west.In(namespace).Run(ctx, "patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"color":"green"}}`))
	eventually(t, runs("web:2 red", "web:1 blue", "web:1 blue"))
	must(t)(shop.Run(ctx, "annotate", "deployment", "web", "placement.atoll.dev/former-", "placement.atoll.dev/rollout-"))
	must(t)(shop.Run(ctx, "scale", "deployment", "web", "--replicas=2"))
	eventually(t, func() error {
		out, err := theLab.west.In(namespace).Run(ctx, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image} {.status.availableReplicas}")
		if err == nil && out != "2 web:1 2" {
			err = fmt.Errorf("below west is %s", out)
		}
		return err
	})
	if out, err := shop.Run(ctx, "rollout", "status", "deployment/web", "--watch=false"); err != nil || strings.Contains(out, "successfully rolled out") {
		t.Errorf("kubectl says that it is rolled out: %s, %v", out, err)
	}

	// It is taken back.
	typed("kubectl atoll rollout undo web")
	eventually(t, runs("web:1 blue", "web:1 blue", "web:1 blue"))
	eventually(t, rolledOut("RolledOut"))
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))

	// One that runs soaks, and goes to the second; the third waits for a person.
	apply("3", "red", "1m")
	eventually(t, runs("web:3 red", "web:3 red", "web:1 blue"))
	eventually(t, rolledOut("NeedsApproval"))
	if err := runs("web:3 red", "web:3 red", "web:1 blue")(); err != nil {
		t.Error(err)
	}
	if out := typed("kubectl atoll rollout approve web"); !strings.Contains(out, "approved") {
		t.Errorf("approve says %s", out)
	}
	eventually(t, runs("web:3 red", "web:3 red", "web:3 red"))
	typed("kubectl atoll rollout status web --watch")
	eventually(t, rolledOut("RolledOut"))
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	notes := must(t)(shop.Run(ctx, "get", "deployment/web", "configmap/settings", "-o", "jsonpath={.items[*].metadata.annotations}"))
	if strings.Contains(notes, "placement.atoll.dev/former") || strings.Contains(notes, `"former"`) {
		t.Errorf("notes are left: %s", notes)
	}
}

// pageCommands are the commands that a page shows.
func pageCommands(t *testing.T, page string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, block := range shellBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, "  #")
			out[strings.TrimSpace(command)] = true
		}
	}
	return out
}

// typeAt types a command of kubectl atoll in the context of a logical cluster.
func typeAt(ctx context.Context, k process.Kubectl, command string) (string, error) {
	args := append(strings.Fields(command)[2:], "--kubeconfig", k.Kubeconfig)
	if k.Context != "" {
		args = append(args, "--context", k.Context)
	}
	out, err := exec.CommandContext(ctx, process.Binary("kubectl-atoll"), args...).CombinedOutput()
	return string(out), err
}
