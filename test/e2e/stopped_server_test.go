package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// served applies the shop to a place, and waits until it serves.
func served(t *testing.T, k process.Kubectl, on string, drainSeconds int) {
	t.Helper()
	ctx := context.Background()
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: "+on+"}}}"))
	must(t)(k.In("shop").Apply(ctx, strings.Replace(shop, "drainSeconds: 2", fmt.Sprint("drainSeconds: ", drainSeconds), 1)))
	serves(t, k)
}

// serves waits until the shop serves.
func serves(t *testing.T, k process.Kubectl) {
	t.Helper()
	ctx := context.Background()
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	eventually(t, func() error {
		n, err := k.In("shop").Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.endpoints[*].conditions.ready} {end}`)
		if err == nil {
			err = want("ready endpoints", strings.Count(n, "true"), 3)
		}
		return err
	})
}

// The only server stands still while traffic is withdrawn from where a namespace leaves, for longer than the drain time
// and than a syncer may be silent. Nobody could see where traffic is to go meanwhile, nor say that it lives: when the
// server goes on, who connected before has the rest of the drain time, and no physical cluster is lost.
func TestNothingHasHappenedWhileTheOnlyServerStoodStill(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	k := l.newCluster(t)
	served(t, k, "east", 15)
	below := l.homeOf(t, k, "shop").namespace
	w := observeBelow(t, below, l.east, l.west)
	ready := func() string {
		return must(t)(l.root.Run(ctx, "get", "physicalclusters", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].lastTransitionTime}{"\n"}{end}`))
	}
	before := ready()
	pin(t, k, "shop", "west")
	eventuallyBrief(t, func() error {
		if way := wayOf(t, k); !strings.Contains(way, "traffic was withdrawn from east") {
			return fmt.Errorf("it says %q", way)
		}
		return nil
	})
	if err := l.server.Freeze(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(45 * time.Second) // what is not there cannot be waited for
	if err := l.server.Thaw(); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	eventuallyBrief(t, func() error { _, err := k.Run(ctx, "get", "namespaces"); return err })
	for left := 8 * time.Second; time.Since(since) < left; time.Sleep(500 * time.Millisecond) { // a busy machine takes a few of the 15 to stop it
		if phase := phaseOf(t, k); phase != placementv1alpha1.TransitionDraining {
			t.Fatalf("%s after it goes on the move is in the phase %q", time.Since(since), phase)
		}
	}
	settled(t, k, "shop", "west")
	if err := want("Ready of the physical clusters", ready(), before); err != nil {
		t.Error(err)
	}
	serves(t, k)
	if available, places := w.read(); available < 3 || places > 1 {
		t.Errorf("there were moments with %d pods available, and with what must run once in %d places:\n%s", available, places, w.seen())
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// wayOf is what the placement of the namespace shop says of its way.
func wayOf(t *testing.T, k process.Kubectl) string {
	t.Helper()
	return must(t)(k.In("shop").Run(context.Background(), "get", "placement/"+placementv1alpha1.NamespaceUnit, "-o", `jsonpath={.status.conditions[?(@.type=="Moving")].message}`))
}
