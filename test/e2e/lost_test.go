package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// lostPolicy lets what it selects wait for two seconds for a physical cluster that does
// not answer.
const lostPolicy = `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: lost}
spec:
  namespaceSelector: {matchLabels: {e2e: lost}}
  terms: [{matchLabels: {e2e: lost}}]
  preferences: [{matchLabels: {first: "yes"}}]
  tolerations:
    - {key: e2e, operator: Exists}
    - {key: fleet.atoll.dev/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
  move: {drainSeconds: 1}
---
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: patient}
spec:
  namespaceSelector: {matchLabels: {e2e: patient}}
  terms: [{matchLabels: {e2e: lost}}]
  preferences: [{matchLabels: {first: "yes"}}]
  tolerations: [{key: e2e, operator: Exists}]
`

// A physical cluster dies, and is back later. What a policy gave a time runs elsewhere
// meanwhile, save what must not run twice; what no policy did stays.
func TestALostPhysicalClusterIsLeftByThoseWhosePolicySaysSo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var started []*physicalCluster
	for _, name := range []string{"lost-a", "lost-b"} {
		p, err := theLab.startPhysical(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		started = append(started, p)
		if err := theLab.register(ctx, name, p.Kubeconfig, "{key: e2e, value: lost, effect: NoSchedule}"); err != nil {
			t.Fatal(err)
		}
		first := map[string]string{"lost-a": "yes", "lost-b": "no"}[name]
		must(t)(theLab.root.Run(ctx, "label", "physicalcluster/"+name, "e2e=lost", "first="+first))
	}
	a, b := started[0], started[1]
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/lost-a", "physicalcluster/lost-b"))
	must(t)(theLab.root.Apply(ctx, lostPolicy))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "lost", "patient")) })

	k := theLab.newCluster(t)
	for _, name := range []string{"lost", "patient"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {e2e: "+name+"}}}"))
		must(t)(k.In(name).Apply(ctx, shop))
		must(t)(k.In(name).Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
		must(t)(k.In(name).Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	}
	pods := must(t)(k.In("patient").Run(ctx, "get", "pods", "-o", "name"))
	a.Kill()

	placed := func(namespace, where string, phase placementv1alpha1.TransitionPhase) func() error {
		return func() error {
			var p placementv1alpha1.Placement
			if ok, err := k.Get(ctx, &p, "placement", placementv1alpha1.NamespaceUnit, "-n", namespace); err != nil || !ok {
				return fmt.Errorf("reading the placement: %v", err)
			}
			got := placementv1alpha1.TransitionPhase("")
			if p.Spec.Transition != nil {
				got = p.Spec.Transition.Phase
			}
			if on := p.Spec.Decision.PhysicalClusters[0].Name; on != where || got != phase {
				return fmt.Errorf("namespace %s is on %s, phase %q: %+v", namespace, on, got, p.Status.Conditions)
			}
			return nil
		}
	}
	eventually(t, placed("lost", "lost-b", placementv1alpha1.TransitionRemoving))
	below := theLab.homeOf(t, k, "lost", b).namespace
	if out := must(t)(b.In(below).Run(ctx, "get", "deployment/web", "-o", "jsonpath={.status.availableReplicas}")); out != "3" {
		t.Errorf("%s pods are available where it went", out)
	}
	// What must not run twice waits: nobody knows whether it runs.
	if out := must(t)(b.In(below).Run(ctx, "get", "statefulsets", "-o", "name")); out != "" {
		t.Errorf("there twice, perhaps: %s", out)
	}
	if err := placed("patient", "lost-a", "")(); err != nil {
		t.Error(err)
	}
	// Nobody is sent to where it was any more.
	eventually(t, func() error {
		out, err := k.In("lost").Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if err == nil {
			err = want("ready endpoints", strings.Count(out, "true"), 3)
		}
		return err
	})

	restart(t, a.Process)
	eventually(t, placed("lost", "lost-b", ""))
	must(t)(b.In(below).Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	eventually(t, func() error {
		out, err := a.Run(ctx, "get", "namespaces", "-o", "name")
		if err == nil && strings.Contains(out, below) {
			err = fmt.Errorf("its namespace is still there: %s", out)
		}
		return err
	})
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/lost-a"))
	if err := placed("patient", "lost-a", "")(); err != nil {
		t.Error(err)
	}
	if after := must(t)(k.In("patient").Run(ctx, "get", "pods", "-o", "name")); after != pods {
		t.Errorf("what stayed has other pods now: %s, had %s", after, pods)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "lost", "patient", "--timeout=3m"))
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "lost-a", "lost-b", "--timeout=2m"))
}
