//go:build linux

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/real/lab"
)

const externalSecretsModule = "github.com/external-secrets/external-secrets"

// externalSecrets is what its chart runs three times, by the user of its Dockerfile. The chart of v0.16.2 names
// the image of the version before.
var externalSecrets = lab.Operator{Image: "external-secrets/external-secrets:v0.16.1", Binary: "external-secrets", Path: "bin/external-secrets", User: "65534"}

// Three programs, by their chart: the first fetches Secrets from stores that users name, the second refuses bad ones, and
// the third makes the certificate of the second and writes its authority where the API server looks for it. The store is another
// namespace of the logical cluster, read as an account of the user, by a token that the operator asks for.
func TestExternalSecretsRunsInPodsAndFetchesSecretsForPodsElsewhere(t *testing.T) {
	areBuilt(t, externalSecrets)
	deploy := filepath.Join(sources(t, "external-secrets", externalSecretsModule), "deploy")
	chart := rendered(t, "external-secrets", chartOf(t, filepath.Join(deploy, "charts", "external-secrets")),
		"--namespace=external-secrets", "--set=leaderElect=true,replicaCount=2,webhook.replicaCount=2,bitwarden-sdk-server.enabled=false")
	loads(t, chart, externalSecrets)

	n := newTenant(t, "fetched")
	operator, user, vault := n.namespace(t, "external-secrets", "east"), n.namespace(t, "web", "west"), n.namespace(t, "vault", "east")
	n.defines(t, filepath.Join(deploy, "crds", "bundle.yaml"))
	must(t)(n.Apply(t.Context(), chart))
	operator.running(t, "external-secrets", "external-secrets-webhook", "external-secrets-cert-controller")
	refusesEmpty(t, user)

	must(t)(vault.Run(t.Context(), "create", "secret", "generic", "source", "--from-literal=word=first"))
	must(t)(user.Apply(t.Context(), store))
	// Without rights in the other namespace its account reads nothing there.
	becomes(t, user, "False", "get", "secretstore", "vault", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	must(t)(vault.Apply(t.Context(), reader))
	fetches(t, user, "fetched", "first")

	// A pod on another physical cluster than that of the operator, which waits for the Secret or has it.
	must(t)(user.Apply(t.Context(), tools("app", "hold", "envFrom: [{secretRef: {name: fetched}}]", "")))
	user.running(t, "app")
	hasWord(t, user, "first")
	must(t)(vault.Run(t.Context(), "patch", "secret", "source", "--type=merge", "-p", `{"stringData":{"word":"second"}}`))
	fetches(t, user, "fetched", "second")
	must(t)(user.Run(t.Context(), "rollout", "restart", "deployment/app"))
	user.running(t, "app")
	hasWord(t, user, "second")

	must(t)(operator.Apply(t.Context(), policy()))
	must(t)(n.Run(t.Context(), "annotate", "namespace", "external-secrets", "--overwrite", "placement.atoll.dev/cluster=west"))
	becomes(t, operator, "west", "get", "placement", "namespace", "-o", "jsonpath={.spec.decision.physicalClusters[*].name}{.spec.transition.phase}")
	operator.running(t, "external-secrets", "external-secrets-webhook")
	refusesEmpty(t, user)
	must(t)(user.Apply(t.Context(), fetch("moved")))
	fetches(t, user, "moved", "second")
	// What it made is its own, and goes with what asked for it.
	must(t)(user.Run(t.Context(), "delete", "externalsecret", "moved"))
	becomes(t, user, "", "get", "secret", "moved", "--ignore-not-found", "-o", "name")
}

// chartOf is a copy of a chart without the one that it depends on, which no registry has here.
func chartOf(t *testing.T, dir string) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(chart, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	about := filepath.Join(chart, "Chart.yaml")
	content, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	without, _, found := strings.Cut(string(content), "dependencies:")
	if !found {
		t.Fatal("VOID: the chart depends on nothing")
	}
	if err := os.WriteFile(about, []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	return chart
}

const (
	store = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: fetcher}
---
apiVersion: external-secrets.io/v1
kind: SecretStore
metadata: {name: vault}
spec:
  refreshInterval: 1
  provider:
    kubernetes:
      remoteNamespace: vault
      server: {caProvider: {type: ConfigMap, name: kube-root-ca.crt, key: ca.crt}}
      auth: {serviceAccount: {name: fetcher}}
---
`
	reader = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: fetcher, namespace: web}]
`
)

// fetch has the Secret of the other namespace fetched, again each second.
func fetch(name string) string {
	return "{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: " + name + "}, spec: {refreshInterval: 1s, " +
		"secretStoreRef: {kind: SecretStore, name: vault}, data: [{secretKey: WORD, remoteRef: {key: source, property: word}}]}}"
}

// fetches waits until the Secret has the word.
func fetches(t *testing.T, n tenant, name, word string) {
	t.Helper()
	must(t)(n.Apply(t.Context(), fetch(name)))
	becomes(t, n, word, "get", "secret", name, "--ignore-not-found", "-o", `go-template={{with .data}}{{.WORD | base64decode}}{{end}}`)
}

// hasWord looks into the environment of the pod.
func hasWord(t *testing.T, n tenant, word string) {
	t.Helper()
	eventually(t, func() error {
		pods, err := n.Run(t.Context(), "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		if len(strings.Fields(pods)) != 1 {
			return fmt.Errorf("the pods are %q, want one", pods)
		}
		env, err := n.in(t.Context(), pods, "env")
		if err == nil && !strings.Contains("\n"+env+"\n", "\nWORD="+word+"\n") {
			err = fmt.Errorf("the environment has no word %q: %s", word, env)
		}
		return err
	})
}

// refusesEmpty waits until the webhook refuses to fetch nothing.
func refusesEmpty(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		_, err := n.Apply(t.Context(), "{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: empty}, spec: {secretStoreRef: {name: vault}}}", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "either data or dataFrom should be specified") {
			return fmt.Errorf("the webhook says of an ExternalSecret of nothing: %w", err)
		}
		return nil
	})
}
