package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestWebhooksRunBelowAServerThatConnects runs with the kubelets of simulated nodes, which
// forward to a real server with a certificate.
func TestWebhooksRunBelowAServerThatConnects(t *testing.T) {
	t.Parallel()
	giveKubelet(t, theLab.addPush(t, "forge"))
	theLab.newBelow(t, "forge").works(t)
}

// TestWebhooksRunBelowBehindASyncer has a syncer that nobody can connect to.
func TestWebhooksRunBelowBehindASyncer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t)
	p, syncer := l.startPull(t, "hooks")
	l.setApart(t, "hooks")
	giveKubelet(t, p)
	b := l.newBelow(t, "hooks")
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
	l.server.Kill()
	if err := l.server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	b.answers(t, "after the server was killed")
}

// below is a logical cluster whose webhooks and API run on a physical cluster.
type below struct {
	process.Kubectl
	lab     *lab
	backend *backend
	ca      string
	count   int
}

// newBelow has a Service "hook" with two pods on a physical cluster. Its port leads to a
// server of this test.
func (l *lab) newBelow(t *testing.T, target string) *below {
	ctx := context.Background()
	cert, key, err := certutil.GenerateSelfSignedCertKey("hook.default.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &below{Kubectl: l.newCluster(t), lab: l, backend: startBackend(t, cert, key), ca: base64.StdEncoding.EncodeToString(cert)}
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
	b.proxies(t)
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

// proxies: kubectl get --raw, and a client of kubectl proxy.
func (b *below) proxies(t *testing.T) {
	ctx := context.Background()
	const fruits, services, pods = "/apis/fruits.example.org/v1/fruits", "/api/v1/namespaces/default/services/", "/api/v1/namespaces/default/pods/"
	pod := must(t)(b.Run(ctx, "get", "pods", "-l", "app=hook", "-o", "jsonpath={.items[0].metadata.name}"))
	for _, path := range []string{services + "https:hook:443", services + "https:hook:", pods + "https:" + pod + ":", pods + fmt.Sprintf("https:%s:%d", pod, b.backend.port)} {
		if out := must(t)(b.Run(ctx, "get", "--raw", path+"/proxy"+fruits)); !strings.HasPrefix(out, "fruits for  at ") {
			t.Errorf("%s answers %q", path, out)
		}
	}
	for path, words := range map[string]string{
		services + "https:hook:80":         `service default/hook has no address that the control plane could call: it has no port "80"`,
		services + "none":                  `services "none" not found`,
		services + "kubernetes":            "it has no selector, and so no pods",
		pods + "none":                      `pods "none" not found`,
		pods + "https:" + pod + ":webhook": "is no port of a pod",
		pods + "https:" + pod + ":1":       "connection refused",
		services + "ftp:hook:443":          "is none of NAME, NAME:PORT and SCHEME:NAME:PORT",
	} {
		if out, err := b.Run(ctx, "get", "--raw", path+"/proxy"+fruits); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s says %v, %q, and not %q", path, err, out, words)
		}
	}
	local := b.Command(ctx, "proxy", "--port=0")
	lines, end := started(t, local)
	defer end()
	line, err := lines.ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if err != nil || !ok {
		t.Fatalf("kubectl proxy says %q, %v", line, err)
	}
	for range 3 {
		resp, err := http.Post("http://"+address+services+"https:hook:443/proxy/length", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusTeapot || string(body) != "1048576" {
			t.Errorf("kubectl proxy answers %d, %q, %v", resp.StatusCode, body, err)
		}
	}
	upgrades(t, address, services+"https:hook:443/proxy"+fruits+"/echo")
	upgrades(t, address, fruits+"/echo") // by the APIService
}

// upgrades has what it says come back over a connection that changed its protocol.
func upgrades(t *testing.T, address, path string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", path)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("%s is not upgraded: %v, %v", path, resp, err)
		return
	}
	fmt.Fprintln(conn, "hello")
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("%s says %q, %v", path, line, err)
	}
}

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
	neighbour := b.lab.newCluster(t)
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
