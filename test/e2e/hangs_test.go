package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// The place moved to stops to answer a moment before the drain time ends, and refuses no connection: for many seconds
// all reports say that it is well. Nothing is removed where the namespace was, and traffic comes back there.
func TestNothingIsRemovedWhileThePlaceMovedToHangs(t *testing.T) {
	t.Parallel()
	for _, connection := range []fleetv1alpha1.ConnectionType{fleetv1alpha1.ConnectionPush, fleetv1alpha1.ConnectionPull} {
		t.Run(string(connection), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			name := "hangs-" + strings.ToLower(string(connection))
			var below *physicalCluster
			if connection == fleetv1alpha1.ConnectionPull {
				below, _ = theLab.startPull(t, name)
				must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"unschedulable":false,"taints":[{"key":"only","effect":"PreferNoSchedule"}]}}`))
			} else {
				below = theLab.addPhysical(t, name)
				if err := theLab.register(ctx, name, below.Kubeconfig, apart); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/"+name, "--timeout=3m"))
				})
				must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+name, "--timeout=3m"))
			}
			k := theLab.newCluster(t)
			must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: east}}}"))
			must(t)(k.In("shop").Apply(ctx, strings.Replace(shop, "drainSeconds: 2", "drainSeconds: 12", 1)))
			must(t)(k.In("shop").Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
			must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
			h := theLab.homeOf(t, k, "shop", theLab.east)

			pin(t, k, "shop", name)
			reaches(t, k, placementv1alpha1.TransitionDraining)
			time.Sleep(8 * time.Second) // a busy machine still has four until the drain time ends
			frozen(t, below)
			since := time.Now()
			eventuallyBrief(t, func() error {
				var p placementv1alpha1.Placement
				if _, err := k.In("shop").Get(ctx, &p, "placement", placementv1alpha1.NamespaceUnit); err != nil {
					return err
				}
				moving := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
				if p.Spec.Transition == nil || p.Spec.Transition.Phase != placementv1alpha1.TransitionStarting || moving == nil || !strings.Contains(moving.Message, name+": ") {
					return fmt.Errorf("transition %+v, %+v", p.Spec.Transition, moving)
				}
				return nil
			})
			t.Logf("it is not moved to any more %s after it stopped to answer", time.Since(since).Round(time.Second))
			for time.Since(since) < 20*time.Second { // the time in which nothing but an answer tells
				if phase := phaseOf(t, k); phase != placementv1alpha1.TransitionStarting {
					t.Fatalf("the move goes on: %s", phase)
				}
				time.Sleep(500 * time.Millisecond)
			}
			must(t)(h.below().Run(ctx, "rollout", "status", "deployment/web", "--timeout=10s"))

			if err := below.Thaw(); err != nil {
				t.Fatal(err)
			}
			settled(t, k, "shop", name)
			must(t)(k.In("shop").Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
			eventually(t, func() error { return gone(theLab.east.Kubectl, "namespace", h.namespace) })
		})
	}
}
