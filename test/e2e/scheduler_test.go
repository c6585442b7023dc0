package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// What the page says a scheduler needs.
const schedulerAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: cheapest, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scheduler}
rules:
  - {apiGroups: [placement.atoll.dev], resources: [placements], verbs: [get, list, watch]}
  - {apiGroups: [placement.atoll.dev], resources: [placements/binding, placementreviews], verbs: [create]}
  - {apiGroups: [""], resources: [nodes], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scheduler}
subjects: [{kind: ServiceAccount, name: cheapest, namespace: default}]
`

// The example of the docs, as its own process with the rights of its account.
func TestASchedulerOfOnesOwnPlacesAndMoves(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, cost := range map[string]string{"east": "3", "west": "1"} {
		must(t)(theLab.root.Run(ctx, "label", "physicalcluster", name, "--overwrite", "cost="+cost))
	}
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, schedulerAccount))
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	policy := func(more string) {
		must(t)(web.Apply(ctx, "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: cheap}, spec: {schedulerName: cheapest, move: {drainSeconds: 1}"+more+"}}"))
	}
	policy("")
	apply := web.Command(ctx, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(deployment("app", 2))
	out, err := apply.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "namespace web is not placed yet, the object waits: scheduler cheapest decides, and has not bound it yet; permitted are ") {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	if err := process.Missing("kubectl-atoll"); err == nil {
		explained, err := exec.Command(process.Binary("kubectl-atoll"), "--kubeconfig", k.Kubeconfig, "explain", "web").CombinedOutput()
		if err != nil || !strings.Contains(string(explained), "Namespace web waits for a physical cluster: scheduler cheapest decides") {
			t.Errorf("kubectl atoll explain: %v\n%s", err, explained)
		}
	}

	dir := t.TempDir()
	program := filepath.Join(dir, "cheapest")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/atoll-dev/atoll/docs/scheduler").CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, out)
	}
	scheduler, err := process.Start(ctx, process.Spec{Path: program, Args: []string{"-kubeconfig", accountKubeconfig(t, k, "default", "cheapest")}, Log: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the scheduler's log:\n%s", scheduler.LogTail())
		}
		scheduler.Kill()
	})
	settled(t, k, "web", "west")
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))

	// What the rules do not permit any more, it binds elsewhere; the move is that of all causes.
	policy(", terms: [{matchLabels: {topology.kubernetes.io/region: east}}]")
	settled(t, k, "web", "east")
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	if by := must(t)(web.Run(ctx, "get", "placement/namespace", "-o", "jsonpath={.spec.decision.schedulerName}")); by != "cheapest" {
		t.Errorf("decided by %q", by)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=3m"))
}

// accountKubeconfig writes a kubeconfig with a token of a service account in the place of
// the credentials of another one.
func accountKubeconfig(t *testing.T, k process.Kubectl, namespace, account string) string {
	t.Helper()
	token := strings.TrimSpace(must(t)(k.In(namespace).Run(context.Background(), "create", "token", account)))
	config, err := clientcmd.LoadFromFile(k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
