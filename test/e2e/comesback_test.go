package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// The only namespace on a physical cluster comes back there while the one that it left is being deleted, and that
// goes while nobody looks. Who connects then finds no namespace, and that says nothing of the physical cluster.
func TestANamespaceThatComesBackDoesNotMakeAPhysicalClusterLookEmptied(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	again := theLab.addPhysical(t, "again")
	between := startProxy(t, again.Kubeconfig)
	if err := theLab.register(ctx, again.name, between.kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/"+again.name, "--timeout=3m"))
	})
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+again.name, "--timeout=3m"))
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: back, annotations: {placement.atoll.dev/cluster: again}}}"))
	back := k.In("back")
	must(t)(back.Apply(ctx, deployment("web", 1)))
	must(t)(back.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	eventually(t, func() error { return want("populated", physical(t, again.name).Status.Identity.Populated, true) })

	h := theLab.homeOf(t, k, "back", again)
	must(t)(h.below().Apply(ctx, "{apiVersion: v1, kind: ConfigMap, metadata: {name: hold, finalizers: [example.com/hold]}}"))
	pin(t, k, "back", "east")
	settled(t, k, "back", "east")
	pin(t, k, "back", again.name)
	eventually(t, func() error {
		said, err := back.Run(ctx, "get", "copies", "-o", `jsonpath={range .items[?(@.spec.physicalCluster=="again")]}{.spec.object.kind} {.status.state} {.status.reason}{"\n"}{end}`)
		if err == nil && !strings.Contains(said, "Namespace Pending "+placementv1alpha1.ReasonTerminating) {
			err = fmt.Errorf("the copies there are %s", said)
		}
		return err
	})

	between.put(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return true
	})
	between.cut()
	must(t)(h.below().Run(ctx, "patch", "configmap", "hold", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`))
	eventually(t, func() error { return gone(again.Kubectl, "namespace", h.namespace) })
	between.put(nil)

	settled(t, k, "back", again.name)
	must(t)(h.below().Run(ctx, "rollout", "status", "deployment/web", "--timeout=1m"))
	if at := physical(t, again.name).Status.Identity.Emptied; at != nil {
		t.Errorf("it counts as emptied since %s", at)
	}
}
