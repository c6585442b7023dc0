package e2e

import (
	"context"
	"errors"
	"testing"
)

func TestDeletingWhatControllersBelowMadeActsThere(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 2)))
	must(t)(k.Apply(ctx, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres, volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: often}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
`))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(k.Run(ctx, "rollout", "status", "statefulset/db", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default")

	replicaSet := func() (string, error) {
		return h.below().Run(ctx, "get", "replicasets", "-o", "jsonpath={.items[*].metadata.uid}")
	}
	before := must(t)(replicaSet())
	must(t)(k.Run(ctx, "delete", "replicasets", "--all", "--timeout=3m"))
	eventually(t, func() error {
		now, err := replicaSet()
		if err == nil && (now == before || now == "") {
			err = errors.New("the ReplicaSet below is still " + now)
		}
		return err
	})
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))

	must(t)(k.Run(ctx, "delete", "statefulset", "db", "--timeout=3m"))
	must(t)(k.Run(ctx, "get", "persistentvolumeclaim", "data-db-0"))
	must(t)(k.Run(ctx, "delete", "persistentvolumeclaim", "data-db-0", "--timeout=3m"))
	gone := func(what string) {
		t.Helper()
		if out := must(t)(h.below().Run(ctx, "get", what, "-o", "name")); out != "" {
			t.Errorf("left below: %s", out)
		}
	}
	gone("persistentvolumeclaims")

	must(t)(k.Run(ctx, "wait", "--for=create", "jobs", "--all", "--timeout=3m"))
	must(t)(k.Run(ctx, "patch", "cronjob", "often", "-p", `{"spec":{"suspend":true}}`))
	must(t)(k.Run(ctx, "delete", "jobs", "--all", "--timeout=3m"))
	gone("jobs")
}
