package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// backPolicy prefers a physical cluster of the test to west of the lab.
const backPolicy = `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: back}
spec:
  namespaceSelector: {matchLabels: {e2e: back}}
  terms: [{matchLabels: {e2e: back}}, {matchLabels: {topology.kubernetes.io/region: west}}]
  preferences: [{matchLabels: {e2e: back}}]
  tolerations: [{key: e2e, operator: Exists}]
  move: {drainSeconds: 1, return: WhenPreferred, returnAfterSeconds: 10}
`

// What was placed while the preferred physical cluster took nothing goes there when that
// does again, once, without a moment in which it serves nobody; what has a pin stays.
func TestANamespaceComesBackToWhatItsPolicyPrefers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p, err := theLab.startPhysical(ctx, "back")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	if err := theLab.register(ctx, "back", p.Kubeconfig, "{key: e2e, value: back, effect: NoSchedule}"); err != nil {
		t.Fatal(err)
	}
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/back", "--type=merge", "-p",
		`{"metadata":{"labels":{"e2e":"back"}},"spec":{"unschedulable":true}}`))
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/back"))
	must(t)(theLab.root.Apply(ctx, backPolicy))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "back")) })

	k := theLab.newCluster(t)
	for _, name := range []string{"back", "pinned"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {e2e: back}}}"))
		must(t)(k.In(name).Apply(ctx, shop))
		must(t)(k.In(name).Run(ctx, "delete", "placementpolicy", "moves")) // that of root says how it moves
		must(t)(k.In(name).Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
		must(t)(k.In(name).Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
		settled(t, k, name, "west")
	}
	pin(t, k, "pinned", "west")
	eventually(t, func() error {
		n, err := k.In("back").Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if err == nil {
			err = want("ready endpoints", n, "true true true")
		}
		return err
	})
	seen := observe(t, k, "back")

	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/back", "--type=merge", "-p", `{"spec":{"unschedulable":false}}`))
	placed := func(name string) placementv1alpha1.Placement {
		var p placementv1alpha1.Placement
		get(t, k, &p, "placement", placementv1alpha1.NamespaceUnit, "-n", name)
		return p
	}
	eventually(t, func() error { // it says what it waits for, or goes already
		p := placed("back")
		if p.Spec.Returned != nil {
			return nil
		}
		moving := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
		if moving == nil || moving.Reason != placementv1alpha1.ReasonWaitsToReturn || p.Status.Awaited == nil {
			return fmt.Errorf("%+v, waits for %+v", p.Status.Conditions, p.Status.Awaited)
		}
		return nil
	})
	eventually(t, func() error {
		p := placed("back")
		if t := p.Spec.Transition; t != nil && t.Cause != placementv1alpha1.CauseReturn {
			return fmt.Errorf("it moves for %s", t.Cause)
		}
		return want("returns", p.Spec.Returned != nil, true)
	})
	settled(t, k, "back", "back")
	must(t)(k.In("back").Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	if least, most := seen.read(); least < 3 || most > 1 {
		t.Errorf("there were %d ready endpoints of 3 at least, and %d pods of what must not run twice", least, most)
	}
	if p := placed("back"); p.Spec.Returned.Times != 1 || p.Status.Awaited != nil {
		t.Errorf("it returned %+v, and waits for %+v", p.Spec.Returned, p.Status.Awaited)
	}
	if p := placed("pinned"); p.Spec.Decision.PhysicalClusters[0].Name != "west" || p.Spec.Returned != nil {
		t.Errorf("what has a pin is on %+v, returned %+v", p.Spec.Decision.PhysicalClusters, p.Spec.Returned)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "back", "pinned", "--timeout=3m"))
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "back", "--timeout=2m"))
}
