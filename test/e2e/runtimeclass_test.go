package e2e

import (
	"context"
	"fmt"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// A RuntimeClass of the physical cluster, which its admin makes for a pool of his, is reached neither by its handler nor by
// its name, and not any more once it brings what pods may not have.
func TestPodsRunInNoClassThatBringsWhatTheyMayNotHave(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	pin(t, k, "default", "east")
	const class = "the-pool-of-the-admin"
	offer := func(scheduling string) {
		must(t)(theLab.east.Apply(ctx, "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: "+class+"}, handler: "+class+scheduling+"}"))
	}
	offer(", scheduling: {tolerations: [{key: pool, operator: Exists}]}")
	t.Cleanup(func() { _, _ = theLab.east.Run(ctx, "delete", "runtimeclass", class) })
	must(t)(k.Apply(ctx, "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: mine}, handler: "+class+"}"))
	deployments := map[string]string{"by-handler": "mine", "by-name": class}
	for name, class := range deployments {
		must(t)(k.Apply(ctx, fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {selector: {matchLabels: {app: %[1]s}}, "+
			"template: {metadata: {labels: {app: %[1]s}}, spec: {runtimeClassName: %s, containers: [{name: c, image: nginx}]}}}}", name, class)))
	}
	all := func(state placementv1alpha1.CopyState, reason string) {
		t.Helper()
		for name := range deployments {
			eventually(t, func() error { return copyOf(k, "deployments", name, state, reason) })
		}
	}
	all(placementv1alpha1.CopyFailed, syncer.ReasonNoRuntimeClass)
	offer("")
	all(placementv1alpha1.CopySynced, "")
	offer(", scheduling: {nodeSelector: {pool: x}}")
	all(placementv1alpha1.CopyFailed, syncer.ReasonNoRuntimeClass)
}
