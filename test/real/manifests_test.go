//go:build linux

package real

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// bootstrap is what an admin has on each physical cluster: a kind with an object of it, and an agent on
// each node that may read it, with what no tenant gets: the network and files of its node.
const bootstrap = `
{apiVersion: v1, kind: Namespace, metadata: {name: agents}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: agent, namespace: agents}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: agents-real}, rules: [{apiGroups: [real.example.com], resources: [gadgets], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: agents-real}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agents-real},
  subjects: [{kind: ServiceAccount, name: agent, namespace: agents}]}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.real.example.com}, spec: {group: real.example.com, scope: Namespaced,
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
---
{apiVersion: real.example.com/v1, kind: Gadget, metadata: {name: one, namespace: agents}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent, namespace: agents, labels: {app: agent}}, spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {
  serviceAccountName: agent, hostNetwork: true, terminationGracePeriodSeconds: 1,
  containers: [{name: tools, image: ` + lab.ToolsImage + `, args: [hold], securityContext: {privileged: true}, volumeMounts: [{name: host, mountPath: /host, readOnly: true}]}],
  volumes: [{name: host, hostPath: {path: /etc, type: Directory}}]}}}}
`

// What Manifests carry to physical clusters runs there as its admin wrote it, with rights there, and ends.
func TestAPhysicalClusterIsBootstrappedByManifests(t *testing.T) {
	ctx := context.Background()
	root := theLab.Root
	must(t)(root.Run(ctx, "create", "namespace", "agents"))
	t.Cleanup(func() {
		must(t)(root.Run(ctx, "delete", "namespace", "agents", "--timeout=3m"))
		for _, on := range []string{"east", "west"} {
			must(t)(theLab.PhysicalCluster(on).Run(ctx, "delete", "crd/gadgets.real.example.com", "namespace/agents", "--ignore-not-found", "--timeout=2m"))
		}
	})
	in := root.In("agents")
	for i, object := range strings.Split(bootstrap, "\n---\n") {
		must(t)(in.Apply(ctx, fmt.Sprintf("{apiVersion: fleet.atoll.dev/v1alpha1, kind: Manifest, metadata: {name: m%d}, spec: {object: %s}}", i, strings.TrimSpace(object))))
	}
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifests", "--all", "--timeout=3m"))

	for _, on := range []string{"east", "west"} {
		below := theLab.PhysicalCluster(on).In("agents")
		must(t)(below.Run(ctx, "rollout", "status", "daemonset/agent", "--timeout=3m"))
		pod := must(t)(below.Run(ctx, "get", "pods", "-l", "app=agent", "-o", "jsonpath={.items[0].metadata.name}"))
		ask := func(words ...string) string {
			return must(t)(below.Run(ctx, append([]string{"exec", pod, "--", "/tools"}, words...)...))
		}
		const api = "https://10.96.0.1/apis/real.example.com/v1/namespaces/agents/gadgets/"
		if got := ask("call", api+"one", mount+"token"); !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s: the agent may not read what it is for: %s", on, got)
		}
		if got := ask("call", "https://10.96.0.1/api/v1/secrets", mount+"token"); !strings.HasPrefix(got, "403 ") {
			t.Errorf("%s: the agent may do more than it was given: %s", on, got)
		}
		if got := ask("cat", "/host/hosts"); got == "" {
			t.Errorf("%s: the agent has not the files of its node", on)
		}
		if node, address := theLab.PhysicalCluster(on).NodeAddress(), must(t)(below.Run(ctx, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")); node != address {
			t.Errorf("%s: the agent has the address %s, its node %s", on, address, node)
		}
	}

	// What a user of a logical cluster writes the same way has none of it.
	n := newTenant(t, "no-agents").namespace(t, "agents", "east")
	_, daemon, _ := strings.Cut(bootstrap, "{apiVersion: apps/v1")
	if out, err := n.Apply(ctx, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: agent}}\n---\n{apiVersion: apps/v1"+daemon); err == nil || !strings.Contains(err.Error(), "orbidden") {
		t.Errorf("a tenant has an agent on the node: %s %v", out, err)
	}

	must(t)(in.Run(ctx, "delete", "manifests", "--all", "--timeout=3m"))
	for _, on := range []string{"east", "west"} {
		below := theLab.PhysicalCluster(on).In("agents")
		for _, gone := range []string{"daemonset/agent", "serviceaccount/agent", "clusterrole/agents-real", "clusterrolebinding/agents-real", "gadgets.real.example.com/one"} {
			if out, err := below.Run(ctx, "get", gone, "--ignore-not-found", "-o", "name"); err != nil || out != "" {
				t.Errorf("%s: %s is left: %s %v", on, gone, out, err)
			}
		}
		eventually(t, func() error {
			out, err := below.Run(ctx, "get", "pods", "-o", "name")
			if err == nil && out != "" {
				err = fmt.Errorf("left are %s", out)
			}
			return err
		})
		for _, kept := range []string{"crd/gadgets.real.example.com", "namespace/agents"} { // with what others may have in them
			must(t)(below.Run(ctx, "get", kept))
		}
	}
}
