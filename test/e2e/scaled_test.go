package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// scaled is an application of three replicas with an autoscaler, and one without. No metrics are
// served below, so the autoscalers there do nothing by themselves: the test scales in their place.
const scaled = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: moves}
spec: {move: {drainSeconds: 2}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
` + autoscaler

// autoscaler scales the Deployment web.
const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 30
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`

// wantsAndHas returns an error unless a Deployment below wants that many replicas, one of several, and has them.
func wantsAndHas(k process.Kubectl, name string, replicas ...int) error {
	got, err := k.Run(context.Background(), "get", "deployment", name, "-o", "jsonpath={.spec.replicas} {.status.availableReplicas}")
	if err != nil {
		return err
	}
	for _, n := range replicas {
		if got == fmt.Sprintf("%d %d", n, n) || n == 0 && strings.TrimSpace(got) == "0" {
			return nil
		}
	}
	return fmt.Errorf("deployment %s wants and has %q, not %v", name, got, replicas)
}

func TestAMoveTakesAlongWhatAnAutoscalerMadeOfADeployment(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: scaled, annotations: {placement.atoll.dev/cluster: east}}}"))
	app := k.In("scaled")
	must(t)(app.Apply(ctx, scaled))
	must(t)(app.Apply(ctx, deployment("web", 3)))
	must(t)(app.Apply(ctx, deployment("plain", 3)))
	must(t)(app.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	east := theLab.homeOf(t, k, "scaled").below()
	eventually(t, func() error { _, err := east.Run(ctx, "get", "hpa/web"); return err })
	must(t)(east.Run(ctx, "scale", "deployment/web", "--replicas=20"))
	eventually(t, func() error { return wantsAndHas(east, "web", 20) })
	eventually(t, func() error {
		n, err := app.Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.endpoints[*].conditions.ready} {end}`)
		if err == nil {
			err = want("ready endpoints", strings.Count(n, "true"), 20)
		}
		return err
	})
	o := observe(t, k, "scaled")

	pin(t, k, "scaled", "west")
	settled(t, k, "scaled", "west")
	west := theLab.homeOf(t, k, "scaled").below()
	if err := wantsAndHas(west, "web", 20); err != nil {
		t.Error(err)
	}
	if err := wantsAndHas(west, "plain", 3); err != nil { // what nobody scales begins with what it wants
		t.Error(err)
	}
	eventually(t, func() error { _, err := west.Run(ctx, "get", "hpa/web"); return err })
	must(t)(app.Run(ctx, "label", "deployment/web", "touched=once"))
	eventually(t, func() error {
		got, err := west.Run(ctx, "get", "deployment/web", "-o", "jsonpath={.metadata.labels.touched}")
		if err == nil {
			err = want("label", got, "once")
		}
		return err
	})
	consistently(t, 2*time.Second, func() error { return wantsAndHas(west, "web", 20) })
	if least, _ := o.read(); least < 20 {
		t.Errorf("there were moments with %d ready endpoints:\n%s", least, o.seen())
	}

	// The autoscaler there has it from now on, also while the way back begins.
	must(t)(west.Run(ctx, "scale", "deployment/web", "--replicas=12"))
	eventually(t, func() error { return wantsAndHas(west, "web", 12) })
	must(t)(app.Run(ctx, "label", "deployment/web", "--overwrite", "touched=twice"))
	consistently(t, 2*time.Second, func() error { return wantsAndHas(west, "web", 12) })
	eventually(t, func() error { least, _ := o.read(); return want("least endpoints", least, 12) })
	pin(t, k, "scaled", "east")
	must(t)(west.Run(ctx, "scale", "deployment/web", "--replicas=16"))
	settled(t, k, "scaled", "east")
	east = theLab.homeOf(t, k, "scaled").below()
	if err := wantsAndHas(east, "web", 12, 16); err != nil { // it may have been over by then
		t.Error(err)
	}
	if least, _ := o.read(); least < 12 {
		t.Errorf("there were moments with %d ready endpoints:\n%s", least, o.seen())
	}

	// Without an autoscaler the same Deployment has what it wants, and the measure bites.
	must(t)(app.Run(ctx, "delete", "hpa", "web"))
	eventually(t, func() error { return wantsAndHas(east, "web", 3) })
	pin(t, k, "scaled", "west")
	settled(t, k, "scaled", "west")
	if err := wantsAndHas(theLab.homeOf(t, k, "scaled").below(), "web", 3); err != nil {
		t.Error(err)
	}
	eventually(t, func() error { least, _ := o.read(); return want("least endpoints", least, 3) })
	must(t)(k.Run(ctx, "delete", "namespace", "scaled", "--timeout=3m"))
}

// Of what is divided each autoscaler wants fewer than the part, as there is little to do. Where one physical cluster is left the
// other takes its part over, before traffic and pods go: its autoscaler cannot have measured that load yet.
func TestThePartOfAnAutoscaledApplicationIsTakenOverBeforeItGoes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: halves}}"))
	app := k.In("halves")
	must(t)(app.Apply(ctx, divided))
	must(t)(app.Apply(ctx, autoscaler))
	must(t)(app.Apply(ctx, deployment("web", 6)))
	below := physicalNamespace(t, k, "halves")
	halves := []process.Kubectl{theLab.east.In(below), theLab.west.In(below)}
	for _, half := range halves {
		eventually(t, func() error { return wantsAndHas(half, "web", 3) })
		eventually(t, func() error { _, err := half.Run(ctx, "get", "hpa/web"); return err })
		must(t)(half.Run(ctx, "scale", "deployment/web", "--replicas=1"))
	}
	for _, half := range halves {
		eventually(t, func() error { return wantsAndHas(half, "web", 1) })
	}
	o := observe(t, k, "halves")

	pin(t, k, "halves", "west")
	settled(t, k, "halves", "west")
	if err := wantsAndHas(halves[1], "web", 6); err != nil { // it measures nothing here, so that it lets them be
		t.Error(err)
	}
	if least, _ := o.read(); least < 2 {
		t.Errorf("there were moments with %d ready endpoints:\n%s", least, o.seen())
	}
	eventually(t, func() error {
		got, err := halves[1].Run(ctx, "get", "hpa/web", "-o", "jsonpath={.spec.minReplicas}")
		if err == nil {
			err = want("the least of the autoscaler", got, "2")
		}
		return err
	})
	must(t)(k.Run(ctx, "delete", "namespace", "halves", "--timeout=3m"))
}

// Who scales to nothing what an autoscaler scales stops it, as in any cluster: also while it moves.
func TestWhatAnAutoscalerScalesIsStoppedByItsUser(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: stopped, annotations: {placement.atoll.dev/cluster: east}}}"))
	app := k.In("stopped")
	must(t)(app.Apply(ctx, scaled))
	must(t)(app.Apply(ctx, deployment("web", 3)))
	must(t)(app.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	east := theLab.homeOf(t, k, "stopped").below()
	eventually(t, func() error { _, err := east.Run(ctx, "get", "hpa/web"); return err })
	must(t)(east.Run(ctx, "scale", "deployment/web", "--replicas=6"))
	eventually(t, func() error { return wantsAndHas(east, "web", 6) })
	must(t)(app.Run(ctx, "scale", "deployment/web", "--replicas=4")) // the autoscaler has the number
	consistently(t, 2*time.Second, func() error { return wantsAndHas(east, "web", 6) })
	must(t)(app.Run(ctx, "scale", "deployment/web", "--replicas=0"))
	eventually(t, func() error { return wantsAndHas(east, "web", 0) })
	must(t)(app.Run(ctx, "scale", "deployment/web", "--replicas=3"))
	eventually(t, func() error { return wantsAndHas(east, "web", 3) })
	must(t)(east.Run(ctx, "scale", "deployment/web", "--replicas=8"))
	eventually(t, func() error { return wantsAndHas(east, "web", 8) })
	must(t)(app.Run(ctx, "label", "deployment/web", "touched=once"))
	consistently(t, 2*time.Second, func() error { return wantsAndHas(east, "web", 8) })

	west := theLab.west.In(must(t)(k.Run(ctx, "get", "namespace", "stopped", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`)))
	pin(t, k, "stopped", "west")
	eventually(t, func() error { _, err := west.Run(ctx, "get", "deployment", "web"); return err })
	must(t)(app.Run(ctx, "scale", "deployment/web", "--replicas=0"))
	settled(t, k, "stopped", "west")
	eventually(t, func() error { return wantsAndHas(west, "web", 0) })
	consistently(t, 2*time.Second, func() error { return wantsAndHas(west, "web", 0) })
	must(t)(app.Run(ctx, "scale", "deployment/web", "--replicas=2"))
	eventually(t, func() error { return wantsAndHas(west, "web", 2) })
	must(t)(k.Run(ctx, "delete", "namespace", "stopped", "--timeout=3m"))
}
