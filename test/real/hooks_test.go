//go:build linux

package real

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// The server of a webhook is a pod of the logical cluster: on a physical cluster that the
// server connects to, and on one that only its syncer leads to.
func TestAWebhookWhoseServerIsAPodIsCalledAndFailsAtOnceWhenItIsGone(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			ctx := context.Background()
			cert, key, err := certutil.GenerateSelfSignedCertKey("hook.web.svc", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			encode := base64.StdEncoding.EncodeToString
			n := newTenant(t, "hooked-"+on).namespace(t, "web", on)
			must(t)(n.Apply(ctx, fmt.Sprintf(hookService, encode(cert), encode(key))+tools("hook", "hook",
				"volumeMounts: [{name: tls, mountPath: /tls}]\nports: [{name: hook, containerPort: 8443}]\nreadinessProbe: {httpGet: {path: /healthz, port: hook, scheme: HTTPS}, periodSeconds: 1}",
				"volumes: [{name: tls, secret: {secretName: tls}}]")))
			n.running(t, "hook")
			must(t)(n.Run(ctx, "create", "configmap", "bad-before")) // nobody refuses it yet
			must(t)(n.Apply(ctx, fmt.Sprintf(hookConfiguration, encode(cert))))
			asked(t, n)
			if _, err := n.Run(ctx, "create", "configmap", "bad"); err == nil || !strings.Contains(err.Error(), "it is bad, says hook-") {
				t.Errorf("the webhook says %v", err)
			}
			must(t)(n.Run(ctx, "delete", "pods", "-l", "app=hook", "--wait=false"))
			n.running(t, "hook")
			asked(t, n)
			must(t)(n.Run(ctx, "scale", "deployment/hook", "--replicas=0"))
			failsAtOnce(t, n, "service web/hook has no address that the control plane could call")
			must(t)(n.Run(ctx, "scale", "deployment/hook", "--replicas=1"))
			n.running(t, "hook")
			asked(t, n)
			if syncer := theLab.PhysicalCluster(on).Syncer; syncer != nil {
				syncer.Kill()
				failsAtOnce(t, n, "its syncer has no tunnel to this server")
				if err := syncer.Start(ctx); err != nil {
					t.Fatal(err)
				}
				asked(t, n)
			}
		})
	}
}

// asked waits until the webhook has seen what is created, by its pod of now.
func asked(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		seen, err := n.Run(t.Context(), "create", "configmap", "good", "--dry-run=server", "-o", "jsonpath={.metadata.labels.seen-by}")
		if err != nil {
			return err
		}
		if pods := must(t)(n.Run(t.Context(), "get", "pods", "-l", "app=hook", "-o", "name")); seen == "" || !strings.Contains(pods, seen) {
			return fmt.Errorf("seen by %q, and there are %q", seen, pods)
		}
		return nil
	})
}

// failsAtOnce waits for the webhook to fail with words, and wants that at once from then on.
func failsAtOnce(t *testing.T, n tenant, words string) {
	t.Helper()
	create := func() error {
		_, err := n.Run(t.Context(), "create", "configmap", "good", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), words) {
			return fmt.Errorf("the webhook says %w, not %q", err, words)
		}
		return nil
	}
	eventually(t, create)
	began := time.Now()
	for range 5 {
		if err := create(); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took > 20*time.Second { // one timeout of a webhook is 30 s
		t.Errorf("five refusals took %s", took)
	}
}

const hookService = `
{apiVersion: v1, kind: Secret, metadata: {name: tls}, type: kubernetes.io/tls, data: {tls.crt: %s, tls.key: %s}}
---
{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {selector: {app: hook}, ports: [{port: 443, targetPort: hook}]}}
---
`

const hookConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
  clientConfig: {caBundle: "%s", service: {namespace: web, name: hook, path: /mutate}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: web}}
`
