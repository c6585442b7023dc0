package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// Services of the same name in two logical clusters get the same ports of nodes from their servers, and none of these below.
func TestPortsOfNodesAreThoseThatWereAskedForOrAreShown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/east", "--type=merge", "-p", `{"spec":{"tenancy":{"nodePorts":[{"first":30000,"last":32767}]}}}`))
	t.Cleanup(func() {
		must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/east", "--type=merge", "-p", `{"spec":{"tenancy":{"nodePorts":null}}}`))
	})
	a, b := theLab.newCluster(t), theLab.newCluster(t)
	service := func(name, port string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: {type: NodePort, ports: [{port: 80" + port + "}]}}"
	}
	shown := map[string]bool{}
	for _, k := range []process.Kubectl{a, b} {
		pin(t, k, "default", "east")
		must(t)(k.Apply(ctx, service("web", "")))
		eventually(t, func() error { return copyOf(k, "services", "web", placementv1alpha1.CopySynced, "") })
		at := theLab.homeOf(t, k, "default")
		var above, below corev1.Service
		if _, err := k.Get(ctx, &above, "service", "web"); err != nil {
			t.Fatal(err)
		}
		if _, err := at.below().Get(ctx, &below, "service", "web"); err != nil {
			t.Fatal(err)
		}
		shown[fmt.Sprint(above.Spec.Ports[0].NodePort)] = true
		message := ""
		if port := below.Spec.Ports[0].NodePort; port != above.Spec.Ports[0].NodePort {
			message = fmt.Sprintf("on nodes of east 80/TCP is %d", port)
		}
		eventually(t, func() error {
			got, err := k.Run(ctx, "get", "service", "web", "-o", `jsonpath={.status.conditions[?(@.type=="`+syncer.NodePortsCondition+`")].message}`)
			if err != nil {
				return err
			}
			return want("what the Service says", strings.TrimSpace(got), message)
		})
	}
	if len(shown) != 1 {
		t.Errorf("the two servers chose %v: nothing would collide", shown)
	}

	const port = "32107"
	must(t)(a.Apply(ctx, service("asked", ", nodePort: "+port)))
	eventually(t, func() error { return copyOf(a, "services", "asked", placementv1alpha1.CopySynced, "") })
	if got := must(t)(theLab.homeOf(t, a, "default").below().Run(ctx, "get", "service", "asked", "-o", "jsonpath={.spec.ports[0].nodePort}")); got != port {
		t.Errorf("asked for is %s, and below is %s", port, got)
	}
	must(t)(b.Apply(ctx, service("asked", ", nodePort: "+port)))
	eventually(t, func() error { return copyOf(b, "services", "asked", placementv1alpha1.CopyFailed, "Invalid") })
}
