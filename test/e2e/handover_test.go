package e2e

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// Not parallel: it proves how fast a syncer is succeeded, and other tests would delay that.
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

func TestASyncerThatLosesItsLeaseForAMomentReadsNothingAnew(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t)
	must(t)(l.root.Apply(ctx, "{apiVersion: fleet.atoll.dev/v1alpha1, kind: PhysicalCluster, metadata: {name: shore}, spec: {unschedulable: true, connection: {type: Pull}}}"))
	shore, err := l.startPhysical(ctx, "shore")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shore.Stop(); err != nil {
			t.Error(err)
		}
	})
	log := l.path("shore-syncer.log")
	syncer, err := process.Start(ctx, process.Spec{
		Path:  process.Binary("atoll-syncer"),
		Args:  []string{"--physical-cluster", "shore", "--kubeconfig", l.kubeconfig(t, "--syncer", "shore"), "--physical-kubeconfig", shore.Kubeconfig},
		Log:   log,
		Ready: "Syncing",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		must(t)(l.root.Run(ctx, "delete", "physicalcluster/shore", "--timeout=3m"))
		if err := syncer.Stop(); err != nil {
			t.Error(err)
		}
	})
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/shore", "--timeout=3m"))
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/shore", "--type=merge", "-p", `{"spec":{"unschedulable":false}}`))
	k := l.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=shore"))
	must(t)(k.Apply(ctx, deployment("app", 1)))
	h := l.homeOf(t, k, "default", shore)
	converges(t, k, h, map[string]int32{"app": 1})

	said := func(words string) int {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(content), words)
	}
	if err := l.server.Freeze(); err != nil {
		t.Fatal(err)
	}
	thaw := sync.OnceFunc(func() { _ = l.server.Thaw() })
	defer thaw()
	eventually(t, func() error {
		if said("Could not renew the Lease") == 0 {
			return errors.New("the syncer has not noticed")
		}
		return nil
	})
	thaw()
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=2"))
	converges(t, k, h, map[string]int32{"app": 2})
	if n := said(`"Syncing"`); n != 1 {
		t.Errorf("%d sessions began, want one that went on:\n%s", n, syncer.LogTail())
	}
}
