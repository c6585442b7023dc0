//go:build linux

package real

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/traffic"
)

// Pods reach a Service by its ClusterIP, which each physical cluster gives its copy. Those
// of its own namespace move with it. Those of others that hold the ClusterIP of a copy lose it
// when the copy goes; by name they do not, where the network is flat: see the tests of imports.
// That, and what fails while pods are told to stop, is printed, not asserted: docs/moving.md says so.
func TestPodsReachAServiceOfTheirNamespaceWhereverBothAre(t *testing.T) {
	ctx := context.Background()
	k, err := theLab.LogicalCluster(ctx, "inside")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(ctx, t, k)
		}
		must(t)(theLab.Root.Run(ctx, "delete", "logicalcluster", "inside", "--timeout=3m"))
	})
	for _, name := range []string{namespace, "neighbour"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", annotations: {placement.atoll.dev/cluster: east}}}"))
	}
	must(t)(k.In(namespace).Apply(ctx, policy()))
	must(t)(k.In(namespace).Apply(ctx, application))
	must(t)(k.In(namespace).Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	address := must(t)(theLab.PhysicalCluster("east").Run(ctx, "get", "service", "web", "-n", below(t, k), "-o", "jsonpath={.spec.clusterIP}"))
	own := send(t, k.In(namespace), "pod of the same namespace", "${WEB_SERVICE_HOST}:${WEB_SERVICE_PORT}")
	other := send(t, k.In("neighbour"), "pod of another namespace", address+":80")
	counts := []*traffic.Count{own, other}
	nothingFailed(t, measure("inside, until withdrawn", counts, func() { pin(t, k, "west"); reaches(t, k, placementv1alpha1.TransitionDraining) }))
	nothingFailed(t, measure("inside, while withdrawn", counts, func() { time.Sleep((drainSeconds - 3) * time.Second) }))
	measure("inside, while removed", counts, func() { settled(t, k, "west") })
	nothingFailed(t, measure("inside, after the move", counts, func() {})[:1])
}

// nothingFailed fails the test if a request did, or if there was none.
func nothingFailed(t *testing.T, results []traffic.Result) {
	t.Helper()
	for _, r := range results {
		if r.Failed > 0 || r.Done == 0 {
			t.Errorf("%s: %d succeeded, %d failed, the first ones: %q", r.Name, r.Done, r.Failed, r.First)
		}
	}
}

// send starts a pod that sends requests, and waits until it is answered.
func send(t *testing.T, k process.Kubectl, name, target string) *traffic.Count {
	t.Helper()
	c, err := traffic.Collect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	collector := net.JoinHostPort(theLab.Physical[0].Address(), strconv.Itoa(c.Port))
	must(t)(k.Apply(t.Context(), client("client", target, collector)))
	must(t)(k.Run(t.Context(), "rollout", "status", "deployment/client", "--timeout=3m"))
	return c.Count
}
