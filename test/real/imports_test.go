//go:build linux

package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/traffic"
)

// flat says that pods of east and west reach each other, which they do in the lab, until the
// test ends.
func flat(t *testing.T) {
	t.Helper()
	for _, name := range []string{"east", "west"} {
		patch(t, name, `{"spec":{"pods":{"network":"flat"}}}`)
		t.Cleanup(func() {
			must(t)(theLab.Root.Run(context.Background(), "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"pods":{"network":null}}}`))
		})
	}
}

// Pods of other namespaces, on both physical clusters, call a Service by its name while it
// moves to and fro: nothing fails. Without the network the same calls fail, or the test would
// be void.
func TestConsumersOnBothPhysicalClustersFollowAMoveWithoutAFailedRequest(t *testing.T) {
	ctx := context.Background()
	offerNames(t, "east")
	offerNames(t, "west")
	flat(t)
	k, err := theLab.LogicalCluster(ctx, "consumers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(ctx, t, k)
		}
		must(t)(theLab.Root.Run(ctx, "delete", "logicalcluster", "consumers", "--timeout=3m"))
	})
	for name, on := range map[string]string{namespace: "east", "stays-east": "east", "stays-west": "west"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", annotations: {placement.atoll.dev/cluster: "+on+"}}}"))
	}
	must(t)(k.In(namespace).Apply(ctx, policy()))
	must(t)(k.In(namespace).Apply(ctx, application))
	must(t)(k.In(namespace).Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	target := "web." + namespace
	counts := []*traffic.Count{
		send(t, k.In("stays-east"), "pod on east, by name", target),
		send(t, k.In("stays-west"), "pod on west, by name", target),
	}
	from := "east"
	for _, to := range []string{"west", "east"} {
		nothingFailed(t, measure("by name, from "+from+" to "+to, counts, func() { pin(t, k, to); settled(t, k, to) }))
		from = to
	}
	// What led to the Service on east before it came back is kept for a minute.
	nothingFailed(t, measure("by name, until that is gone", counts, func() { retiredEnds(t, "east") }))
	void := measure("by name, the network gone", counts, func() {
		patch(t, "west", `{"spec":{"pods":{"network":null}}}`)
		time.Sleep(15 * time.Second) // what leads to it goes ten seconds after the import
	})
	if void[1].Failed == 0 {
		t.Errorf("without a network a pod on west still reaches what is on east: the test proves nothing (%+v)", void[1])
	}
}

// retiredEnds waits until what is retired on a physical cluster is gone.
func retiredEnds(t *testing.T, on string) {
	t.Helper()
	eventually(t, func() error { return noRetired(theLab.PhysicalCluster(on).In(namesNamespace)) })
}

func noRetired(k process.Kubectl) error {
	out, err := k.Run(context.Background(), "get", "services", "-l", "atoll.dev/import", "-o", `jsonpath={.items[*].metadata.annotations.atoll\.dev/retired}`)
	if err == nil && out != "" {
		err = fmt.Errorf("on the physical cluster there are Services that are retired")
	}
	return err
}
