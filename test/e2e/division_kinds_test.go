package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// budgeted are six pods of which five have to be available, and an application that is scaled.
const budgeted = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 5, selector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: api}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: api}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  minReplicas: 3
  maxReplicas: 7
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`

const nineTimes = `
apiVersion: batch/v1
kind: Job
metadata: {name: nine}
spec:
  parallelism: 4
  completions: 9
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: busybox}]
`

func TestBudgetsAutoscalersAndJobsAreDividedOverTwoPhysicalClusters(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: kinds}}"))
	shop := k.In("kinds")
	must(t)(shop.Apply(ctx, divided))
	must(t)(shop.Run(ctx, "create", "deployment", "web", "--image=nginx", "--replicas=6"))
	must(t)(shop.Run(ctx, "create", "deployment", "api", "--image=nginx"))
	below := must(t)(k.Run(ctx, "get", "namespace", "kinds", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`))

	has := func(what, template, east, west string) {
		t.Helper()
		eventually(t, func() error {
			for at, want := range map[*physicalCluster]string{theLab.east: east, theLab.west: west} {
				got, err := at.In(below).Run(ctx, "get", what, "-o", "jsonpath="+template)
				if err != nil {
					return err
				}
				if got != want {
					return fmt.Errorf("%s on %s has %q, want %q", what, at.name, got, want)
				}
			}
			return nil
		})
	}
	says := func(what, template, want string) {
		t.Helper()
		eventually(t, func() error {
			got, err := shop.Run(ctx, "get", what, "-o", "jsonpath="+template)
			if err == nil && got != want {
				err = fmt.Errorf("%s has %q, want %q", what, got, want)
			}
			return err
		})
	}

	const bounds, spec, targets = "{.spec.minReplicas} {.spec.maxReplicas}", "{.spec.minAvailable}", `{.metadata.annotations.placement\.atoll\.dev/targets}`
	must(t)(shop.Apply(ctx, budgeted))
	has("pdb/web", spec, "3", "2")
	has("pdb/api", "{.spec.maxUnavailable}", "1", "0")
	has("hpa/api", bounds, "2 4", "1 3")
	has("deployment/api", "{.spec.replicas} {.status.availableReplicas}", "2 2", "1 1") // none is scaled up from nothing
	says("deployment/api", "{.status.availableReplicas}", "3")
	says("pdb/web", "{.status.desiredHealthy} {.status.currentHealthy} {.status.expectedPods} {.status.disruptionsAllowed} {.status.conditions[0].status}", "5 6 6 1 True")

	// Other weights move replicas, bounds and budgets, each in sum what it was.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":{"targets":[%s,%s]}}}`,
		`{"term":{"matchLabels":{"topology.kubernetes.io/region":"east"}},"weight":1}`, `{"weight":2}`)))
	has("deployment/web", "{.spec.replicas} {.status.availableReplicas}", "2 2", "4 4")
	has("pdb/web", spec, "2", "3")
	has("hpa/api", bounds, "1 3", "2 4")
	says("pdb/web", "{.status.desiredHealthy} {.status.currentHealthy} {.status.expectedPods} {.status.disruptionsAllowed}", "5 6 6 1")
	says("pdb/web", targets, `{"east":{"replicas":2},"west":{"replicas":3}}`)

	// A Job runs as often as it shall, and is complete when all of it is.
	out := must(t)(shop.Apply(ctx, nineTimes, "-o", "jsonpath="+targets))
	if want := `{"east":{"replicas":1,"completions":2},"west":{"replicas":3,"completions":7}}`; !strings.Contains(out, want) {
		t.Errorf("the answer has %s, want %s", out, want)
	}
	must(t)(shop.Run(ctx, "wait", "--for=condition=Complete", "job/nine", "--timeout=5m"))
	says("job/nine", "{.status.succeeded}", "9")
	has("job/nine", "{.spec.parallelism} {.spec.completions} {.status.succeeded}", "1 2 2", "3 7 7")

	// One without numbers runs once.
	must(t)(shop.Run(ctx, "create", "job", "once", "--image=busybox"))
	must(t)(shop.Run(ctx, "wait", "--for=condition=Complete", "job/once", "--timeout=5m"))
	says("job/once", "{.status.succeeded}", "1")
}

// inOnePlace runs three pods, each with a number, and a CronJob is beside it.
const inOnePlace = `
apiVersion: batch/v1
kind: Job
metadata: {name: three}
spec:
  completionMode: Indexed
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: busybox}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: yearly}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}
`

func TestACronJobAndAJobOfNumberedPodsRunInOnePlaceOfADivision(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: alone}}"))
	shop := k.In("alone")
	must(t)(shop.Apply(ctx, divided))
	must(t)(shop.Apply(ctx, inOnePlace))
	below := must(t)(k.Run(ctx, "get", "namespace", "alone", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`))
	on := func(at *physicalCluster, names string) {
		t.Helper()
		eventually(t, func() error {
			got, err := at.In(below).Run(ctx, "get", "jobs,cronjobs", "-o", "jsonpath={.items[*].metadata.name}")
			if err != nil {
				return err
			}
			return want("what is on "+at.name, got, names)
		})
	}
	on(theLab.east, "three yearly")
	must(t)(shop.Run(ctx, "wait", "--for=condition=Complete", "job/three", "--timeout=5m"))
	if out := must(t)(shop.Run(ctx, "get", "job", "three", "-o", "jsonpath={.status.succeeded} {.status.completedIndexes}")); out != "3 0-2" {
		t.Errorf("the Job has %q", out)
	}
	on(theLab.west, "")

	// Nothing is to be there any more: the CronJob goes, and what has ended stays.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":{"targets":[%s]}}}`,
		`{"term":{"matchLabels":{"topology.kubernetes.io/region":"east"}},"max":0}`)))
	on(theLab.west, "yearly")
	on(theLab.east, "three")
}
