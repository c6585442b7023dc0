package operators

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// The Service of the sample selects pods; this one is the process of the test. Its
// roles lack what its libraries of today read.
const wardle = `
apiVersion: v1
kind: Service
metadata: {name: api, namespace: wardle}
spec: {type: ExternalName, externalName: 127.0.0.1}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.wardle.example.com}
spec:
  group: wardle.example.com
  version: v1alpha1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {name: api, namespace: wardle, port: PORT}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mutating-policies}
rules:
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingadmissionpolicies, mutatingadmissionpolicybindings], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mutating-policies}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mutating-policies}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
`

const flunder = `
apiVersion: wardle.example.com/v1alpha1
kind: Flunder
metadata: {name: my-first-flunder, labels: {sample-label: "true"}}
`

func TestSampleAPIServerServesFlundersToOneLogicalCluster(t *testing.T) {
	built(t, "sample-apiserver")
	k, other := theLab.newCluster(t, "sample-apiserver"), theLab.newCluster(t, "sample-apiserver-other")
	example := filepath.Join(sources(t, filepath.Join("modules", "sample-apiserver"), "k8s.io/sample-apiserver"), "artifacts", "example")
	for _, file := range []string{"ns", "sa", "auth-delegator", "rbac", "rbac-bind", "auth-reader"} {
		do(t)(k.Run(t.Context(), "apply", "-f", filepath.Join(example, file+".yaml")))
	}
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	do(t)(k.Apply(t.Context(), strings.ReplaceAll(wardle, "PORT", port)))
	available := jsonpath("apiservice/v1alpha1.wardle.example.com", `.status.conditions[?(@.type=="Available")].reason`)
	becomes(t, k, "FailedDiscoveryCheck", available...)
	becomes(t, k.In("kube-system"), `["atoll-front-proxy:sample-apiserver"]`, jsonpath("configmap/extension-apiserver-authentication", ".data.requestheader-allowed-names")...)

	config := asServiceAccount(t, k, "wardle", "apiserver")
	theLab.operator(t, "sample-apiserver", "--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", t.TempDir(),
		"--etcd-servers", "unix://"+theLab.path("atoll", "etcd", "client.sock"),
		"--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig", config)
	becomes(t, k, "Passed", available...)

	do(t)(k.Apply(t.Context(), flunder))
	becomes(t, k, "my-first-flunder", "get", "flunders", "-l", "sample-label=true", "-o", "jsonpath={.items[*].metadata.name}")
	do(t)(k.Run(t.Context(), "label", "flunder", "my-first-flunder", "more=true"))
	becomes(t, k, "true", jsonpath("flunder/my-first-flunder", ".metadata.labels.more")...)
	if out := do(t)(k.Run(t.Context(), "explain", "flunders")); !strings.Contains(out, "KIND:       Flunder") {
		t.Errorf("kubectl explain flunders: %s", out)
	}
	if out, err := k.Run(t.Context(), "--as", "nobody", "get", "flunders"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a user without rights gets %q, %v", out, err)
	}
	if out, err := other.Run(t.Context(), "get", "flunders"); err == nil {
		t.Errorf("another logical cluster has flunders: %s", out)
	}
	do(t)(k.Run(t.Context(), "delete", "flunder", "my-first-flunder"))
	vanishes(t, k, "flunders")
}

// asServiceAccount writes a kubeconfig with a token.
func asServiceAccount(t *testing.T, k process.Kubectl, namespace, name string) string {
	t.Helper()
	token := strings.TrimSpace(do(t)(k.In(namespace).Run(t.Context(), "create", "token", name)))
	config, err := clientcmd.LoadFromFile(k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	}
	path := filepath.Join(t.TempDir(), fmt.Sprintf("%s.kubeconfig", name))
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
