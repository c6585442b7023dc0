package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhatAdmissionAddsRunsBelowAndQuotasCountWhatRuns(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, limited))
	eventually(t, func() error {
		_, err := k.Apply(ctx, limitedWork)
		return err
	})
	must(t)(k.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	must(t)(k.Run(ctx, "wait", "--for=condition=Ready", "pod/single", "--timeout=3m"))

	h := theLab.homeOf(t, k, "default")
	var below corev1.Pod
	get(t, h.below(), &below, "pod", "single")
	if got := below.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "50m" {
		t.Errorf("below it requests %s, want the default of the limit range", got)
	}
	if slices.ContainsFunc(below.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, "kube-api-access-") }) {
		t.Errorf("below it has a token: %v", below.Spec.Volumes)
	}
	usage := func(pods, cpu string) func() error {
		return func() error {
			out, err := k.Run(ctx, "describe", "quota", "q")
			if err != nil {
				return err
			}
			for _, line := range []string{`pods\s+` + pods + `\s+5`, `requests.cpu\s+` + cpu + `\s+2`} {
				if !regexp.MustCompile(line).MatchString(out) {
					return fmt.Errorf("no %s in\n%s", line, out)
				}
			}
			return nil
		}
	}
	eventually(t, usage("3", "250m"))

	// A webhook that refuses everything does not keep the syncer from telling.
	must(t)(k.Apply(ctx, refuseAll))
	eventually(t, func() error {
		if _, err := k.Run(ctx, "create", "configmap", "probe", "--dry-run=server"); err == nil {
			return fmt.Errorf("the webhook is not asked yet")
		}
		return nil
	})
	must(t)(h.below().Run(ctx, "delete", "pod", "-l", "app=web", "--wait=false"))
	must(t)(h.below().Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	eventually(t, func() error {
		names := must(t)(h.below().Run(ctx, "get", "pods", "-l", "app=web", "-o", "name"))
		above, err := k.Run(ctx, "get", "pods", "-l", "app=web", "-o", "name")
		if err != nil {
			return err
		}
		return want("pods above", lines(above), lines(names))
	})
	must(t)(k.Run(ctx, "delete", "validatingwebhookconfiguration", "refuse"))
	must(t)(k.Run(ctx, "delete", "deployment/web", "pod/single", "--timeout=3m"))
	eventually(t, usage("0", "0"))
}

func lines(s string) []string {
	out := strings.Fields(s)
	slices.Sort(out)
	return out
}

const limited = `
apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, defaultRequest: {cpu: 50m}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {pods: 5, requests.cpu: 2}}
`

const limitedWork = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: single}
spec: {containers: [{name: c, image: busybox}]}
`

const refuseAll = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refuse}
webhooks:
  - name: refuse.example.com
    clientConfig: {url: "https://127.0.0.1:1/"}
    rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"]}]
    sideEffects: None
    timeoutSeconds: 1
    admissionReviewVersions: [v1]
`
