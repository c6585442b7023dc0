package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestDeletedAndRecreatedUnderTheSameNameTheNewOneLives(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	must(t)(web.Apply(ctx, deployment("app", 1)))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "web")
	for round := range 5 {
		old := uidOf(t, web, "app")
		must(t)(web.Run(ctx, "delete", "deployment", "app", "--wait=false"))
		eventually(t, func() error {
			_, err := web.Apply(ctx, deployment("app", round+2))
			if err != nil {
				return err
			}
			if uid := uidOf(t, web, "app"); uid == old {
				return fmt.Errorf("still the old object %s", uid)
			}
			return nil
		})
		eventually(t, func() error { return available(web, "app", int32(round+2)) })
		if err := available(h.below(), "app", int32(round+2)); err != nil {
			t.Fatal(err)
		}
	}
	before := uidOf(t, h.below(), "app")
	consistently(t, 5*time.Second, func() error {
		return want("UID of the copy", uidOf(t, h.below(), "app"), before)
	})

	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=3m"))
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	must(t)(web.Apply(ctx, deployment("app", 1)))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	again := theLab.homeOf(t, k, "web")
	if again.namespace == h.namespace {
		t.Errorf("the new namespace has the physical namespace %s of the old one", h.namespace)
	}
	if err := gone(h.Kubectl, "namespace", h.namespace); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotOursIsNotTouched(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default")
	must(t)(h.below().Apply(ctx, deployment("theirs", 2)))
	must(t)(h.below().Run(ctx, "rollout", "status", "deployment/theirs", "--timeout=3m"))
	uid := uidOf(t, h.below(), "theirs")

	must(t)(k.Apply(ctx, deployment("theirs", 5)))
	eventually(t, func() error {
		reason, err := k.Run(ctx, "get", "copies", "-o", `jsonpath={.items[?(@.spec.object.name=="theirs")].status.state}/{.items[?(@.spec.object.name=="theirs")].status.reason}`)
		if err == nil {
			err = want("state and reason of the copy", reason, "Failed/NotOurs")
		}
		return err
	})
	must(t)(k.Run(ctx, "delete", "deployment", "theirs", "--timeout=3m"))
	if err := want("UID of their deployment", uidOf(t, h.below(), "theirs"), uid); err != nil {
		t.Error(err)
	}
	if err := available(h.below(), "theirs", 2); err != nil {
		t.Error(err)
	}
	must(t)(h.below().Run(ctx, "delete", "deployment", "theirs"))
}

func TestWhatIsDeletedOrChangedBelowIsMended(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 2)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default")

	must(t)(h.below().Run(ctx, "scale", "deployment/app", "--replicas=0"))
	eventually(t, func() error { return available(h.below(), "app", 2) })
	must(t)(h.below().Run(ctx, "delete", "deployment", "app"))
	converges(t, k, h, map[string]int32{"app": 2})
}

func TestADeletedPodOfASetComesBackUnderItsName(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
`))
	for range 3 {
		must(t)(k.Run(ctx, "wait", "--for=create", "pod/db-0", "--timeout=3m"))
		must(t)(k.Run(ctx, "wait", "--for=condition=Ready", "pod/db-0", "--timeout=3m"))
		must(t)(k.Run(ctx, "delete", "pod", "db-0", "--timeout=3m"))
	}
	must(t)(k.Run(ctx, "wait", "--for=create", "pod/db-0", "--timeout=3m"))
	eventually(t, func() error {
		pods, err := k.Run(ctx, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
		if err == nil {
			err = want("pods", pods, "db-0")
		}
		return err
	})
}
