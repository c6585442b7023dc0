package operators

import (
	"path/filepath"
	"testing"
)

const rollout = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 2
  strategy: {canary: {steps: [{setWeight: 50}, {pause: {duration: 1s}}]}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.29"}]}
`

func TestArgoRolloutsMovesARolloutToANewImage(t *testing.T) {
	built(t, "argo-rollouts")
	k := theLab.newCluster(t, "argo-rollouts")
	crds := filepath.Join(sources(t, "modules/argo-rollouts", "github.com/argoproj/argo-rollouts"), "manifests", "crds")
	define(t, k, crds+"/rollout-crd.yaml,"+crds+"/analysis-run-crd.yaml,"+crds+"/analysis-template-crd.yaml,"+crds+"/cluster-analysis-template-crd.yaml,"+crds+"/experiment-crd.yaml")
	theLab.operator(t, "argo-rollouts", "--kubeconfig", k.Kubeconfig, "--leader-elect=false", "--metricsPort=0", "--healthzPort=0")

	do(t)(k.Apply(t.Context(), rollout))
	becomes(t, k, "Healthy", jsonpath("rollout/web", ".status.phase")...)
	becomes(t, k, "2", jsonpath("rollout/web", ".status.availableReplicas")...)

	do(t)(k.Run(t.Context(), "patch", "rollout", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:1.30"}]`))
	becomes(t, k, "nginx:1.30 nginx:1.30", "get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[0].image}")
	becomes(t, k, "Healthy", jsonpath("rollout/web", ".status.phase")...)

	do(t)(k.Run(t.Context(), "delete", "rollout", "web"))
	vanishes(t, k, "replicasets,pods")
}
