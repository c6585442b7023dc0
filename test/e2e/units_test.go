package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// duo is an application of which a policy has one Deployment in both physical clusters;
// what is beside it is where the namespace is.
const duo = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: front}
spec:
  objects: {kinds: [{group: apps, kind: Deployment}], names: [web]}
  count: 2
  move: {drainSeconds: 1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: c, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {selector: {app: api}, ports: [{port: 80}]}
`

func TestADeploymentIsPlacedAndMovedApartFromItsNeighbour(t *testing.T) {
	long(t)
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: duo, annotations: {placement.atoll.dev/cluster: east}}}"))
	shop := k.In("duo")
	must(t)(shop.Apply(ctx, duo))
	for _, what := range []string{"deployment/web", "deployment/api", "statefulset/one"} {
		must(t)(shop.Run(ctx, "rollout", "status", what, "--timeout=3m"))
	}
	on := func(what string) string {
		out := must(t)(shop.Run(ctx, "get", what, "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/targets}`))
		return strings.TrimSpace(out)
	}
	for what, targets := range map[string]string{
		"deployment/web": `{"east":{},"west":{}}`, "service/web": `{"east":{},"west":{}}`,
		"deployment/api": `{"east":{}}`, "service/api": `{"east":{}}`, "statefulset/one": `{"east":{}}`,
	} {
		eventually(t, func() error { return want("the targets of "+what, on(what), targets) })
	}
	eventually(t, func() error { return want("what both refer to", on("configmap/settings"), `{"east":{},"west":{}}`) })
	eventually(t, func() error {
		n, err := shop.Run(ctx, "get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}")
		if err == nil {
			err = want("pods in both", n, "4")
		}
		return err
	})
	if out, err := theLab.west.Run(ctx, "get", "deployments", "-n", theLab.homeOf(t, k, "duo").namespace, "-o", "name"); err != nil || strings.Contains(out, "/api") {
		t.Errorf("the neighbour is in the west, too: %s (error %v)", out, err)
	}
	eventually(t, func() error {
		n, err := shop.Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.endpoints[*].conditions.ready} {end}`)
		if err == nil {
			err = want("ready endpoints", strings.Count(n, "true"), 4)
		}
		return err
	})
	o := observe(t, k, "duo")
	neighbour := must(t)(shop.Run(ctx, "get", "pods", "-l", "app=api", "-o", "jsonpath={.items[*].metadata.uid}"))

	// An edit of the policy: one place is enough; then the one moves without the other.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "front", "--type=merge", "-p", `{"spec":{"count":1}}`))
	eventually(t, func() error { return unitSettled(ctx, shop.Run, "front", 1) })
	for _, to := range []string{"west", "east", "west"} {
		must(t)(plugin(ctx, shop, "move", "deployment/web", "--to", to, "--watch", "--timeout=3m"))
		eventually(t, func() error { return want("the targets", on("deployment/web"), fmt.Sprintf(`{"%s":{}}`, to)) })
		eventually(t, func() error {
			return want("the targets of its Service", on("service/web"), fmt.Sprintf(`{"%s":{}}`, to))
		})
	}
	if out := must(t)(plugin(ctx, shop, "explain", "deployment/web")); !strings.Contains(out, "What policy front of namespace duo selects is placed on west.") {
		t.Errorf("explained: %s", out)
	}
	if out, err := plugin(ctx, shop, "move", "deployment/api", "--to", "west"); err == nil || !strings.Contains(out, "moves with its namespace") {
		t.Errorf("the neighbour alone: %s (error %v)", out, err)
	}

	// Another edit: what must not run twice comes into the unit, and is stopped first.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "front", "--type=merge", "-p",
		`{"spec":{"objects":{"kinds":[{"group":"apps","kind":"Deployment"},{"group":"apps","kind":"StatefulSet"}],"names":["web","one"]}}}`))
	eventually(t, func() error {
		return want("the targets of what must not run twice", on("statefulset/one"), `{"west":{}}`)
	})
	must(t)(shop.Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))

	// Without the policy both are where the namespace is.
	must(t)(shop.Run(ctx, "delete", "placementpolicy", "front"))
	for _, what := range []string{"deployment/web", "statefulset/one", "service/web", "configmap/settings"} {
		eventually(t, func() error { return want("the targets of "+what, on(what), `{"east":{}}`) })
	}
	must(t)(shop.Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
	eventually(t, func() error {
		out, err := shop.Run(ctx, "get", "placements", "-o", "name")
		if err == nil {
			err = want("placements", strings.TrimSpace(out), "placement.placement.atoll.dev/namespace")
		}
		return err
	})
	eventually(t, func() error { return want("the targets of the Namespace", on("namespace/duo"), `{"east":{}}`) })
	if least, most := o.read(); least < 2 || most > 1 {
		t.Errorf("there were moments with %d ready endpoints, and with %d pods of which one must run", least, most)
	}
	if now := must(t)(shop.Run(ctx, "get", "pods", "-l", "app=api", "-o", "jsonpath={.items[*].metadata.uid}")); now != neighbour {
		t.Errorf("the pods of the neighbour were %s and are %s", neighbour, now)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "duo", "--timeout=3m"))
}

// plugin runs a command of kubectl-atoll; what it complains about is in what it printed.
func plugin(ctx context.Context, k process.Kubectl, args ...string) (string, error) {
	cmd := k.Command(ctx, args...)
	cmd.Path = process.Binary("kubectl-atoll")
	cmd.Args[0] = cmd.Path
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// unitSettled says what is missing until a unit is on so many physical clusters, and on no
// way.
func unitSettled(ctx context.Context, run func(context.Context, ...string) (string, error), unit string, n int) error {
	out, err := run(ctx, "get", "placement", unit, "-o", `jsonpath={.spec.decision.physicalClusters[*].name}|{.spec.transition.phase}`)
	if err != nil {
		return err
	}
	decided, phase, _ := strings.Cut(out, "|")
	if len(strings.Fields(decided)) != n || phase != "" {
		return fmt.Errorf("unit %s of %s: %s", unit, placementv1alpha1.GroupName, out)
	}
	return nil
}
