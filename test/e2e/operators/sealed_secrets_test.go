package operators

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// What the chart of the operator grants, as far as the controller uses it.
const sealer = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: sealer, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sealer}
rules:
- {apiGroups: [bitnami.com], resources: [sealedsecrets], verbs: [get, list, watch]}
- {apiGroups: [bitnami.com], resources: [sealedsecrets/status], verbs: [update]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch, create, update, delete]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sealer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sealer}
subjects: [{kind: ServiceAccount, name: sealer, namespace: kube-system}]
`

func TestSealedSecretsUnsealsWithATokenAndNoPath(t *testing.T) {
	operator, kubeseal := built(t, "sealed-secrets"), built(t, "kubeseal")
	k := theLab.newCluster(t, "sealed-secrets")
	define(t, k, filepath.Join(sources(t, "modules", "github.com/bitnami-labs/sealed-secrets"), "helm", "sealed-secrets", "crds"))
	do(t)(k.Apply(t.Context(), sealer))
	theLab.inCluster(t, k, operator, "kube-system", "sealer")

	const keys = "sealedsecrets.bitnami.com/sealed-secrets-key"
	becomes(t, k.In("kube-system"), "active", "get", "secrets", "-l", keys, "-o", `jsonpath={.items[*].metadata.labels.sealedsecrets\.bitnami\.com/sealed-secrets-key}`)
	cert := filepath.Join(t.TempDir(), "tls.crt")
	pem := do(t)(k.In("kube-system").Run(t.Context(), "get", "secrets", "-l", keys, "-o", `go-template={{index .items 0 "data" "tls.crt" | base64decode}}`))
	if err := os.WriteFile(cert, []byte(pem), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"one", "two"} {
		do(t)(k.Apply(t.Context(), seal(t, k, kubeseal, cert, value)))
		becomes(t, k, value, "get", "secret", "password", "--ignore-not-found", "-o", "go-template={{.data.value | base64decode}}")
		becomes(t, k, "True", jsonpath("sealedsecret/password", `.status.conditions[?(@.type=="Synced")].status`)...)
	}
	do(t)(k.Run(t.Context(), "delete", "sealedsecret", "password"))
	vanishes(t, k, "secret", "password")
}

// seal encrypts a Secret as a user does.
func seal(t *testing.T, k process.Kubectl, kubeseal, cert, value string) string {
	t.Helper()
	secret := do(t)(k.Run(t.Context(), "create", "secret", "generic", "password", "--namespace=default", "--from-literal=value="+value, "--dry-run=client", "-o", "yaml"))
	cmd := exec.CommandContext(t.Context(), kubeseal, "--cert", cert, "--format", "yaml")
	cmd.Stdin = strings.NewReader(secret)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubeseal: %v", err)
	}
	return string(out)
}

// inCluster starts an operator as in a pod: the address of the server in the
// environment, the token in the well-known place, which it alone sees.
func (l *lab) inCluster(t *testing.T, k process.Kubectl, binary, namespace, account string) {
	t.Helper()
	dir := t.TempDir()
	token := do(t)(k.In(namespace).Run(t.Context(), "create", "token", account))
	for name, data := range map[string]string{
		"token": strings.TrimSpace(token), "namespace": namespace,
		"ca.crt": do(t)(k.Run(t.Context(), "get", "configmap", "kube-root-ca.crt", "-o", `jsonpath={.data.ca\.crt}`)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const place = "/var/run/secrets/kubernetes.io/serviceaccount"
	private := []string{"unshare", "--map-root-user", "--mount"}
	if out, err := exec.Command(private[0], append(private[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no mounts of one's own are possible here: %v: %s", err, out)
	}
	host, port, err := net.SplitHostPort(l.listen)
	if err != nil {
		t.Fatal(err)
	}
	script := "mount -t tmpfs none /var/run && mkdir -p " + place + " && cp " + dir + "/* " + place + " && " +
		"exec env KUBERNETES_SERVICE_HOST=" + host + " KUBERNETES_SERVICE_PORT=" + port + " " + binary
	l.command(t, filepath.Base(binary), append(private, "sh", "-c", script))
}
