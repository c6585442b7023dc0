package operators

import (
	"path/filepath"
	"testing"
)

const foo = `
apiVersion: samplecontroller.k8s.io/v1alpha1
kind: Foo
metadata: {name: example}
spec: {deploymentName: example, replicas: 1}
`

func TestSampleControllerKeepsADeploymentForAFoo(t *testing.T) {
	built(t, "sample-controller")
	k := theLab.newCluster(t, "sample-controller")
	define(t, k, filepath.Join(sources(t, "modules", "k8s.io/sample-controller"), "artifacts", "examples", "crd-status-subresource.yaml"))
	theLab.operator(t, "sample-controller", "--kubeconfig", k.Kubeconfig)

	do(t)(k.Apply(t.Context(), foo))
	becomes(t, k, "1", jsonpath("foo/example", ".status.availableReplicas")...)
	becomes(t, k, "1", jsonpath("deployment/example", ".status.readyReplicas")...)

	do(t)(k.Run(t.Context(), "patch", "foo", "example", "--type=merge", "-p", `{"spec":{"replicas":3}}`))
	becomes(t, k, "3", jsonpath("foo/example", ".status.availableReplicas")...)

	do(t)(k.Run(t.Context(), "delete", "foo", "example"))
	vanishes(t, k, "deployments,replicasets,pods")
}
