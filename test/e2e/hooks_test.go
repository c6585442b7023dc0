package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestWebhooksRunBelowAServerThatConnects runs with the kubelets of simulated nodes, which
// forward to a real server with a certificate. It is not parallel: it takes the nodes' kubelet.
func TestWebhooksRunBelowAServerThatConnects(t *testing.T) {
	giveKubelet(t, theLab.east)
	newBelow(t, "east").works(t)
}

// TestWebhooksRunBelowBehindASyncer has a syncer that nobody can connect to.
func TestWebhooksRunBelowBehindASyncer(t *testing.T) {
	ctx := context.Background()
	p, syncer := theLab.startPull(t, "hooks")
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/hooks", "--type=merge", "-p", `{"spec":{"unschedulable":false,"taints":[{"key":"only","effect":"PreferNoSchedule"}]}}`))
	giveKubelet(t, p)
	b := newBelow(t, "hooks")
	b.works(t)
	syncer.Kill()
	begun := time.Now()
	b.says(t, "its syncer has no tunnel to this server")
	t.Logf("without a syncer it is said so after %s", time.Since(begun))
	asked := time.Now()
	if _, err := b.config("late"); err == nil || time.Since(asked) > 5*time.Second {
		t.Errorf("without a syncer a webhook answers after %s: %v", time.Since(asked), err)
	}
	b.unavailable(t, "FailedDiscoveryCheck")
	if err := syncer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b.answers(t, "after the syncer was killed")
	theLab.server.Kill()
	if err := theLab.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b.answers(t, "after the server was killed")
}

// below is a logical cluster whose webhooks and API run on a physical cluster.
type below struct {
	process.Kubectl
	backend *backend
	ca      string
	count   int
}

// newBelow has a Service "hook" with two pods on a physical cluster. Its port leads to a
// server of this test.
func newBelow(t *testing.T, target string) *below {
	ctx := context.Background()
	cert, key, err := certutil.GenerateSelfSignedCertKey("hook.default.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &below{Kubectl: theLab.newCluster(t), backend: startBackend(t, cert, key), ca: base64.StdEncoding.EncodeToString(cert)}
	must(t)(b.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster="+target))
	must(t)(b.Apply(ctx, fmt.Sprintf(serviceBelow, b.backend.port)))
	must(t)(b.Run(ctx, "rollout", "status", "deployment/hook", "--timeout=3m"))
	return b
}

const serviceBelow = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: hook}
spec:
  replicas: 2
  selector: {matchLabels: {app: hook}}
  template:
    metadata: {labels: {app: hook}}
    spec:
      containers: [{name: app, image: "nginx:1.29", ports: [{name: webhook, containerPort: %d}]}]
---
apiVersion: v1
kind: Service
metadata: {name: hook}
spec: {selector: {app: hook}, ports: [{port: 443, targetPort: webhook}]}
`

func (b *below) works(t *testing.T) {
	b.admits(t)
	b.converts(t)
	b.aggregates(t)
	b.refusesOthers(t)
	b.follows(t)
}

// config creates a ConfigMap, which the webhooks see.
func (b *below) config(kind string) (string, error) {
	b.count++
	return b.Run(context.Background(), "create", "configmap", fmt.Sprintf("%s-%d", kind, b.count), "-o", "jsonpath={.metadata.labels.seen}")
}

func (b *below) admits(t *testing.T) {
	ctx := context.Background()
	must(t)(b.Apply(ctx, strings.ReplaceAll(admissionBelow, "CA", b.ca)))
	eventually(t, func() error { // the configuration is known after a moment
		seen, err := b.config("good")
		if err != nil || seen != "yes" {
			return fmt.Errorf("a webhook labels it %q: %w", seen, err)
		}
		return nil
	})
	if out, err := b.config("bad"); err == nil || !strings.Contains(err.Error(), "it is bad") {
		t.Errorf("the validating webhook says %v, %s", err, out)
	}
	before := b.backend.connections.Load()
	for range 20 {
		must(t)(b.config("good"))
	}
	// Two pods and two clients; a few more where something is ready a moment later.
	if more := b.backend.connections.Load() - before; more > 8 {
		t.Errorf("40 calls took %d connections", more)
	}
	for _, name := range b.backend.serverNames() {
		if name != "hook.default.svc" {
			t.Errorf("it is called %q", name)
		}
	}
}

const admissionBelow = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutates}
webhooks:
- name: mutates.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
  clientConfig: {caBundle: "CA", service: {namespace: default, name: hook, path: /mutate}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validates}
webhooks:
- name: validates.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
  clientConfig: {caBundle: "CA", service: {namespace: default, name: hook, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
`

func (b *below) converts(t *testing.T) {
	ctx := context.Background()
	must(t)(b.Apply(ctx, strings.ReplaceAll(definitionBelow, "CA", b.ca)))
	must(t)(b.Run(ctx, "wait", "--for=condition=Established", "crd/shells.example.org", "--timeout=3m"))
	must(t)(b.Apply(ctx, "{apiVersion: example.org/v1, kind: Shell, metadata: {name: one}}"))
	if got := must(t)(b.Run(ctx, "get", "shells.v2.example.org", "one", "-o", "jsonpath={.apiVersion} {.converted}")); got != "example.org/v2 yes" {
		t.Errorf("converted it is %q", got)
	}
}

const definitionBelow = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shells.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: shells, singular: shell, kind: Shell}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {caBundle: "CA", service: {namespace: default, name: hook, path: /convert}}
`

func (b *below) aggregates(t *testing.T) {
	ctx := context.Background()
	must(t)(b.Apply(ctx, strings.ReplaceAll(apiBelow, "CA", b.ca)))
	must(t)(b.Run(ctx, "wait", "--for=condition=Available", "apiservice/v1.fruits.example.org", "--timeout=3m"))
	for range 3 {
		out := must(t)(b.Run(ctx, "get", "--raw", "/apis/fruits.example.org/v1/fruits"))
		if out != "fruits for admin at hook.default.svc" {
			t.Errorf("the API below answers %q", out)
		}
	}
}

const apiBelow = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.fruits.example.org}
spec:
  group: fruits.example.org
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  caBundle: "CA"
  service: {namespace: default, name: hook}
`

// refusesOthers: who has another key is not believed, and a Service of another namespace
// or logical cluster has no pods here.
func (b *below) refusesOthers(t *testing.T) {
	ctx := context.Background()
	other, _, err := certutil.GenerateSelfSignedCertKey("hook.default.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	webhook := func(ca, namespace string) string {
		return strings.NewReplacer("CA", ca, "namespace: default", "namespace: "+namespace, "validates", "refused", "configmaps", "secrets").
			Replace(admissionBelow[strings.Index(admissionBelow, "---"):])
	}
	secret := func(k process.Kubectl, words string) {
		t.Helper()
		eventually(t, func() error {
			_, err := k.Run(ctx, "create", "secret", "generic", "s", "--dry-run=server")
			if err == nil || !strings.Contains(err.Error(), words) {
				return fmt.Errorf("it says %w, not %q", err, words)
			}
			return nil
		})
	}
	must(t)(b.Apply(ctx, webhook(base64.StdEncoding.EncodeToString(other), "default")))
	secret(b.Kubectl, "x509: certificate signed by unknown authority")
	const selecting = "{apiVersion: v1, kind: Service, metadata: {name: hook, namespace: %s}, spec: {selector: {app: hook}, ports: [{port: 443, targetPort: webhook}]}}"
	must(t)(b.Run(ctx, "create", "namespace", "other"))
	must(t)(b.Apply(ctx, fmt.Sprintf(selecting, "other")))
	must(t)(b.Apply(ctx, webhook(b.ca, "other")))
	secret(b.Kubectl, "service other/hook has no address that the control plane could call: it runs on a physical cluster, and no pod of its namespace has the labels")
	must(t)(b.Run(ctx, "delete", "validatingwebhookconfiguration", "refused"))
	neighbour := theLab.newCluster(t)
	must(t)(neighbour.Apply(ctx, fmt.Sprintf(selecting, "default")))
	must(t)(neighbour.Apply(ctx, webhook(b.ca, "default")))
	secret(neighbour, "service default/hook has no address that the control plane could call: it runs on a physical cluster, and no pod of its namespace has the labels")
}

// follows: pods that are made anew are asked, and none is no answer.
func (b *below) follows(t *testing.T) {
	ctx := context.Background()
	must(t)(b.Run(ctx, "delete", "pods", "-l", "app=hook", "--wait=false"))
	b.answers(t, "after the pods were deleted")
	must(t)(b.Run(ctx, "scale", "deployment/hook", "--replicas=0"))
	b.says(t, "service default/hook has no address that the control plane could call")
	must(t)(b.Run(ctx, "patch", "validatingwebhookconfiguration/validates", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`))
	must(t)(b.Run(ctx, "patch", "mutatingwebhookconfiguration/mutates", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`))
	eventually(t, func() error {
		seen, err := b.config("good")
		if err == nil && seen != "" {
			err = fmt.Errorf("it is labelled %q", seen)
		}
		return err
	})
	b.unavailable(t, "EndpointsNotFound")
	must(t)(b.Apply(ctx, strings.ReplaceAll(strings.ReplaceAll(admissionBelow, "  sideEffects", "  failurePolicy: Fail\n  sideEffects"), "CA", b.ca)))
	must(t)(b.Run(ctx, "scale", "deployment/hook", "--replicas=2"))
	b.answers(t, "after there were no pods")
}

// answers waits for the webhooks and the API to answer.
func (b *below) answers(t *testing.T, when string) {
	t.Helper()
	eventually(t, func() error {
		seen, err := b.config("good")
		if err != nil || seen != "yes" {
			return fmt.Errorf("a webhook %s labels it %q: %w", when, seen, err)
		}
		out, err := b.Run(context.Background(), "get", "--raw", "/apis/fruits.example.org/v1/fruits")
		if err != nil || !strings.HasPrefix(out, "fruits ") {
			return fmt.Errorf("the API %s says %q: %w", when, out, err)
		}
		return nil
	})
}

// says waits for the webhooks to fail with words.
func (b *below) says(t *testing.T, words string) {
	t.Helper()
	eventually(t, func() error {
		if _, err := b.config("good"); err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "service default/hook") {
			return fmt.Errorf("the webhook says %w, not %q", err, words)
		}
		return nil
	})
}

func (b *below) unavailable(t *testing.T, reason string) {
	t.Helper()
	eventually(t, func() error {
		out, err := b.Run(context.Background(), "get", "apiservice", "v1.fruits.example.org", "-o", `jsonpath={.status.conditions[?(@.type=="Available")].reason}`)
		if err == nil && out != reason {
			err = fmt.Errorf("the reason is %q, not %q", out, reason)
		}
		return err
	})
}
