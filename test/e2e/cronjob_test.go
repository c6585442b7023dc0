package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// The Deployment has the namespace on west before anything moves there.
const scheduled = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: ahead}
spec:
  objects: {kinds: [{group: apps, kind: Deployment}]}
  count: 2
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "%d,%d * * * *"
  timeZone: Etc/UTC
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
`

// A run is due while the CronJob is nowhere, as a quota keeps it from where it goes. It is begun
// there, and the one before it is not begun again.
func TestACronJobThatMovesMissesNoRunAndRepeatsNone(t *testing.T) {
	long(t)
	ctx := context.Background()
	k := theLab.newCluster(t)
	first := time.Now().UTC().Add(10 * time.Second).Truncate(time.Minute).Add(time.Minute)
	second := first.Add(2 * time.Minute)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: cron, annotations: {placement.atoll.dev/cluster: east}}}"))
	cron := k.In("cron")
	must(t)(cron.Apply(ctx, fmt.Sprintf(scheduled, first.Minute(), second.Minute())))
	must(t)(cron.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	east, west := theLab.homeOf(t, k, "cron"), home{theLab.west, theLab.homeOf(t, k, "cron").namespace}
	must(t)(west.below().Run(ctx, "create", "quota", "not-yet", "--hard=count/cronjobs.batch=0"))

	// runs are when jobs were due that are on a physical cluster.
	runs := func(h home) []string {
		return strings.Fields(must(t)(h.below().Run(ctx, "get", "jobs", "-o",
			`jsonpath={range .items[*]}{.metadata.annotations.batch\.kubernetes\.io/cronjob-scheduled-timestamp}{"\n"}{end}`)))
	}
	ran := func(h home, due ...time.Time) func() error {
		return func() error {
			var want []string
			for _, d := range due {
				want = append(want, d.Format(time.RFC3339))
			}
			if got := runs(h); !slices.Equal(got, want) {
				return fmt.Errorf("on %s jobs were due at %v, want %v", h.name, got, want)
			}
			return nil
		}
	}
	eventually(t, ran(east, first))

	must(t)(k.Run(ctx, "annotate", "namespace", "cron", placementv1alpha1.PhysicalClusterAnnotation+"=west", "--overwrite"))
	eventually(t, func() error {
		out, err := cron.Run(ctx, "get", "copies", "-o", `jsonpath={range .items[?(@.spec.object.kind=="CronJob")]}{.spec.physicalCluster} {.status.state} {.status.reason}{"\n"}{end}`)
		if err != nil {
			return err
		}
		return want("the copies of the CronJob", strings.TrimSpace(out), "west Failed Forbidden")
	})
	if now := time.Now(); !now.Before(second) {
		t.Skipf("the move took until %s: no run was due while the CronJob was nowhere", now)
	}
	last := func() error {
		out, err := cron.Run(ctx, "get", "cronjob", "tick", "-o", "jsonpath={.status.lastScheduleTime}")
		if err != nil {
			return err
		}
		return want("the last run", out, first.Format(time.RFC3339))
	}
	eventually(t, last)
	eventually(t, func() error {
		if time.Now().Before(second.Add(time.Second)) {
			return errors.New("the second run is not due yet")
		}
		return nil
	})
	must(t)(west.below().Run(ctx, "delete", "quota", "not-yet"))
	must(t)(cron.Run(ctx, "label", "cronjob", "tick", "look=again"))
	eventually(t, ran(west, second))
	eventually(t, func() error {
		out, err := cron.Run(ctx, "get", "cronjob", "tick", "-o", "jsonpath={.status.lastScheduleTime}")
		if err != nil {
			return err
		}
		return want("the last run", out, second.Format(time.RFC3339))
	})
}
