//go:build linux

package real

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// prometheusOperator is what its manifests run, by the names and users of their Dockerfiles.
var prometheusOperator = []lab.Operator{
	{Image: "prometheus-operator/prometheus-operator:v0.85.0", Binary: "prometheus-operator", Path: "bin/operator", User: "65534"},
	{Image: "prometheus-operator/prometheus-config-reloader:v0.85.0", Binary: "prometheus-config-reloader", Path: "bin/prometheus-config-reloader", User: "nobody"},
	{Image: "prometheus/prometheus:v3.5.0", Binary: "prometheus", Path: "bin/prometheus", User: "nobody"},
}

// The manifests of the operator are applied as they are, all of them: it runs in a pod, as its
// account, with the rights of its ClusterRole in the logical cluster. So are those of its
// sample, a Prometheus. What that asks for metrics is the operator, at the address of its pod.
func TestPrometheusOperatorRunsInAPodAndMakesAPrometheusThatFindsItsTargets(t *testing.T) {
	areBuilt(t, prometheusOperator...)
	module := sources(t, "", "github.com/prometheus-operator/prometheus-operator")
	examples := filepath.Join(module, "example")
	defaults, err := os.ReadFile(filepath.Join(module, "pkg", "operator", "defaults.go")) // the image of a Prometheus
	if err != nil {
		t.Fatal(err)
	}
	loads(t, manifests(t, filepath.Join(examples, "rbac", "prometheus-operator"))+string(defaults), prometheusOperator...)
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			n := newTenant(t, "monitored-"+on)
			n.Kubectl = n.In("default") // as the manifests say
			must(t)(n.Run(t.Context(), "annotate", "namespace", "default", "placement.atoll.dev/cluster="+on))
			n.defines(t, filepath.Join(examples, "prometheus-operator-crd"))
			const binding = "prometheus-operator-cluster-role-binding.yaml"
			operator := filepath.Join(examples, "rbac", "prometheus-operator")
			must(t)(n.Apply(t.Context(), manifests(t, operator, binding)))
			must(t)(n.Apply(t.Context(), manifests(t, filepath.Join(examples, "rbac", "prometheus"))))
			mayNothing(t, n)
			must(t)(n.Run(t.Context(), "apply", "-f", filepath.Join(operator, binding)))
			must(t)(n.Run(t.Context(), "rollout", "restart", "deployment/prometheus-operator")) // it asks for its rights once
			n.running(t, "prometheus-operator")

			becomes(t, n, "2", "get", "statefulset/prometheus-prometheus", "-o", "jsonpath={.status.readyReplicas}")
			becomes(t, n, "2 True", "get", "prometheus/prometheus", "-o", `jsonpath={.status.availableReplicas} {.status.conditions[?(@.type=="Available")].status}`)
			finds(t, n) // the sample selects the monitors of a team
			must(t)(n.Run(t.Context(), "label", "servicemonitor", "prometheus-operator", "team=frontend"))
			pod := must(t)(n.Run(t.Context(), "get", "pods", "-l", "app.kubernetes.io/name=prometheus-operator", "-o", "jsonpath={.items[*].metadata.name}"))
			finds(t, n, pod)

			must(t)(n.Run(t.Context(), "patch", "prometheus", "prometheus", "--type=merge", "-p", `{"spec":{"replicas":1}}`))
			becomes(t, n, "1 1", "get", "prometheus/prometheus", "-o", "jsonpath={.status.replicas} {.status.availableReplicas}")
			must(t)(n.Run(t.Context(), "delete", "prometheus", "prometheus"))
			becomes(t, n, "", "get", "statefulsets,pods", "-l", "app.kubernetes.io/name=prometheus", "-o", "name")
		})
	}
}

// mayNothing is the control of rights: without its binding the operator is refused, by name,
// and nothing is made.
func mayNothing(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		log, err := n.Run(t.Context(), "logs", "deployment/prometheus-operator")
		if err == nil && !strings.Contains(log, `system:serviceaccount:default:prometheus-operator`) {
			err = fmt.Errorf("it says %s", log)
		}
		return err
	})
	if made := must(t)(n.Run(t.Context(), "get", "statefulsets", "-o", "name")); made != "" {
		t.Errorf("without rights it makes %s", made)
	}
}

// finds waits until both pods of a Prometheus have asked exactly these pods, and were answered.
func finds(t *testing.T, n tenant, want ...string) {
	t.Helper()
	for _, pod := range []string{"prometheus-prometheus-0", "prometheus-prometheus-1"} {
		eventually(t, func() error {
			out, err := n.Run(t.Context(), "get", "--raw", "/api/v1/namespaces/default/pods/"+pod+":9090/proxy/api/v1/query?query=up")
			if err != nil {
				return err
			}
			var answer struct {
				Status string
				Data   struct {
					Result []struct {
						Metric struct{ Pod, Namespace string }
						Value  [2]any
					}
				}
			}
			if err := json.Unmarshal([]byte(out), &answer); err != nil {
				return err
			}
			var got []string
			for _, r := range answer.Data.Result {
				if r.Metric.Namespace == "default" && r.Value[1] == "1" {
					got = append(got, r.Metric.Pod)
				}
			}
			if diff := cmp.Diff(want, got); answer.Status != "success" || diff != "" {
				return fmt.Errorf("%s finds (-want +got):\n%s%s", pod, diff, out)
			}
			return nil
		})
	}
}

// becomes waits until what kubectl prints is want.
func becomes(t *testing.T, n tenant, want string, args ...string) {
	t.Helper()
	eventually(t, func() error {
		out, err := n.Run(t.Context(), args...)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("kubectl %s: %q, want %q", strings.Join(args, " "), out, want)
		}
		return err
	})
}
