package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a pod makes itself the owner of, by the UID that it has below, lives as long as the
// pod: a controller does so with what it makes, and with its lock.
func TestWhatAPodOwnsByTheUIDThatItKnowsLivesAsLongAsThePod(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: a
        image: i
        env:
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
`))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default")
	const names = "jsonpath={.items[0].metadata.name} {.items[0].metadata.uid}"
	name, uid, _ := strings.Cut(must(t)(h.below().Run(ctx, "get", "pods", "-o", names)), " ")
	if above := must(t)(k.Run(ctx, "get", "pods", "-o", names)); above != name+" "+uid {
		t.Fatalf("the pod is %s below and %s above", name+" "+uid, above)
	}
	namespace := must(t)(h.below().Run(ctx, "get", "pod", name, "-o", `jsonpath={.metadata.annotations.atoll\.dev/namespace} {.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath}`))
	if want := "default metadata.annotations['atoll.dev/namespace']"; namespace != want {
		t.Errorf("the namespace that the pod learns of: %s, want %s", namespace, want)
	}
	if path := must(t)(k.Run(ctx, "get", "pods", "-o", "jsonpath={.items[0].spec.containers[0].env[0].valueFrom.fieldRef.fieldPath}")); path != "metadata.namespace" {
		t.Errorf("the logical cluster shows %s", path)
	}
	owned := func(kind, object, uid string) string {
		return fmt.Sprintf("%s\nmetadata: {name: %s, ownerReferences: [{apiVersion: v1, kind: Pod, name: %s, uid: %s}]}\n---\n", kind, object, name, uid)
	}
	const configMap, lease = "apiVersion: v1\nkind: ConfigMap", "apiVersion: coordination.k8s.io/v1\nkind: Lease"
	must(t)(k.Apply(ctx, owned(configMap, "of-the-pod", uid)+owned(lease, "of-the-pod", uid)+owned(configMap, "of-nobody", "00000000-0000-4000-8000-000000000000")))
	must(t)(k.Run(ctx, "wait", "--for=delete", "configmap/of-nobody", "--timeout=3m")) // garbage is collected
	must(t)(k.Run(ctx, "get", "configmap/of-the-pod", "lease/of-the-pod"))
	must(t)(k.Run(ctx, "delete", "pod", name, "--timeout=3m"))
	eventually(t, func() error {
		left, err := k.Run(ctx, "get", "configmap/of-the-pod", "lease/of-the-pod", "--ignore-not-found", "-o", "name")
		if err == nil && left != "" {
			err = errors.New("left: " + left)
		}
		return err
	})
}
