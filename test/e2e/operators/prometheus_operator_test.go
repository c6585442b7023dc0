package operators

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

const prometheus = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: shop}
spec:
  serviceAccountName: prometheus
  replicas: 2
  serviceMonitorSelector: {}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  endpoints: [{port: http}]
`

func TestPrometheusOperatorRunsAPrometheus(t *testing.T) {
	built(t, "prometheus-operator")
	k := theLab.newCluster(t, "prometheus-operator")
	define(t, k, filepath.Join(sources(t, "modules", "github.com/prometheus-operator/prometheus-operator"), "example", "prometheus-operator-crd"))
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	theLab.operator(t, "prometheus-operator",
		"--apiserver="+field(t, k, ".clusters[0].cluster.server"),
		"--ca-file="+file(t, k, "ca.crt", ".clusters[0].cluster.certificate-authority-data"),
		"--cert-file="+file(t, k, "client.crt", ".users[0].user.client-certificate-data"),
		"--key-file="+file(t, k, "client.key", ".users[0].user.client-key-data"),
		"--web.listen-address="+address)

	do(t)(k.Apply(t.Context(), prometheus))
	becomes(t, k, "2", jsonpath("statefulset/prometheus-shop", ".status.readyReplicas")...)
	becomes(t, k, "2", jsonpath("prometheus/shop", ".status.availableReplicas")...)
	becomes(t, k, "True", jsonpath("prometheus/shop", `.status.conditions[?(@.type=="Available")].status`)...)

	do(t)(k.Run(t.Context(), "patch", "prometheus", "shop", "--type=merge", "-p", `{"spec":{"replicas":1}}`))
	becomes(t, k, "1", jsonpath("statefulset/prometheus-shop", ".status.replicas")...)
	becomes(t, k, "1", jsonpath("prometheus/shop", ".status.replicas")...)

	do(t)(k.Run(t.Context(), "delete", "prometheus", "shop"))
	vanishes(t, k, "statefulsets,pods")
}

// field is a value of the kubeconfig.
func field(t *testing.T, k process.Kubectl, path string) string {
	t.Helper()
	return do(t)(k.Run(t.Context(), "config", "view", "--raw", "-o", "jsonpath={"+path+"}"))
}

// file holds a value of the kubeconfig.
func file(t *testing.T, k process.Kubectl, name, path string) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(field(t, k, path))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(out, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}
