package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
)

func TestASecondSyncerTakesOverFromOneThatStopsOrDies(t *testing.T) {
	ctx := context.Background()
	south, err := theLab.startPhysical(ctx, "south")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := south.Stop(); err != nil {
			t.Error(err)
		}
	})
	must(t)(theLab.root.Apply(ctx, "{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, metadata: {name: south}, spec: {connection: {type: Pull}, taints: [{key: test, effect: NoSchedule}]}}"))
	credentials := theLab.kubeconfig(t, "--syncer", "south")
	start := func(log, ready string) *process.Process {
		t.Helper()
		p, err := process.Start(ctx, process.Spec{
			Path:  process.Binary("atoll-syncer"),
			Args:  []string{"--physical-cluster", "south", "--kubeconfig", credentials, "--physical-kubeconfig", south.Kubeconfig},
			Log:   theLab.path(log),
			Ready: ready,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() }) // it may have been killed
		return p
	}
	holder := func() string {
		return must(t)(theLab.root.Run(ctx, "-n", "atoll-system", "get", "lease", "south", "-o", "jsonpath={.spec.holderIdentity}"))
	}
	changes := func(before string, within time.Duration, what string) string {
		t.Helper()
		began := time.Now()
		for time.Since(began) < within {
			if now := holder(); now != before && now != "" {
				t.Logf("%s: succeeded after %s", what, time.Since(began).Round(100*time.Millisecond))
				return now
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Fatalf("%s: not succeeded within %s", what, within)
		return ""
	}
	first := start("south-1.log", "Syncing")
	one := holder()
	second := start("south-2.log", "Another syncer serves the physical cluster")
	first.Kill()
	two := changes(one, 25*time.Second, "killed")

	start("south-3.log", "Another syncer serves the physical cluster")
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	changes(two, 10*time.Second, "stopped")
	must(t)(theLab.root.Run(ctx, "delete", "physicalcluster", "south", "--timeout=3m"))
}
