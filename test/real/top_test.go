//go:build linux

package real

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/atoll-dev/atoll/test/framework/metrics"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// TestKubectlTopShowsWhatPodsUse has what pods really use measured by their kubelets, gathered by metrics-server, and
// shown in their logical cluster: beside idle ones, across physical clusters, and to an autoscaler.
func TestKubectlTopShowsWhatPodsUse(t *testing.T) {
	server := built(t, "metrics-server")
	for _, p := range theLab.Physical {
		gather(t, p, server)
	}
	n := newTenant(t, "measured")
	web, db := n.namespace(t, "web", "east"), n.namespace(t, "db", "west")
	must(t)(web.Apply(t.Context(), tools("busy", `burn, "64"`, "", "")+tools("idle", "hold", "", "")))
	must(t)(db.Apply(t.Context(), tools("store", `burn, "32"`, "", "")))
	web.running(t, "busy", "idle")
	db.running(t, "store")

	eventually(t, func() error {
		used, err := topOf(n, "pods", "-A")
		if err != nil {
			return err
		}
		for _, pod := range []struct {
			name              string
			cpu, memory, most string
		}{
			{"busy", "50m", "64Mi", "200Mi"},
			{"idle", "0m", "1Mi", "40Mi"},
			{"store", "50m", "32Mi", "100Mi"},
		} {
			u, ok := used[pod.name]
			if !ok || u.cpu.Cmp(resource.MustParse(pod.cpu)) < 0 || u.memory.Cmp(resource.MustParse(pod.memory)) < 0 || u.memory.Cmp(resource.MustParse(pod.most)) > 0 {
				return fmt.Errorf("%s uses %s and %s", pod.name, u.cpu.String(), u.memory.String())
			}
		}
		if idle, busy := used["idle"], used["busy"]; len(used) != 3 || idle.cpu.Cmp(busy.cpu) >= 0 {
			return fmt.Errorf("of %d pods, %s is used by the idle one, and %s by the busy one", len(used), idle.cpu.String(), busy.cpu.String())
		}
		return nil
	})
	nodes, err := topOf(n, "nodes")
	if err != nil || len(nodes) < 2 {
		t.Errorf("of its nodes a tenant sees %v (error %v)", nodes, err)
	}

	// An autoscaler beside them goes by the same figures.
	must(t)(web.Apply(t.Context(), `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  minReplicas: 1
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 40m}}}]
`))
	becomes(t, web, "2", "get", "deployment/busy", "-o", "jsonpath={.status.readyReplicas}")

	// Who scales it to nothing stops it, which the autoscaler lets be, and starts it again.
	must(t)(web.Run(t.Context(), "scale", "deployment/busy", "--replicas=0"))
	becomes(t, web, "", "get", "deployment/busy", "-o", "jsonpath={.status.replicas}")
	becomes(t, web, "ScalingDisabled", "get", "hpa/busy", "-o", `jsonpath={.status.conditions[?(@.type=="ScalingActive")].reason}`)
	must(t)(web.Run(t.Context(), "scale", "deployment/busy", "--replicas=1"))
	becomes(t, web, "2", "get", "deployment/busy", "-o", "jsonpath={.status.readyReplicas}")
}

// gather runs a metrics-server for a physical cluster, until the test ends.
func gather(t *testing.T, p *lab.PhysicalCluster, server string) {
	t.Helper()
	listen, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	m, err := process.Start(t.Context(), process.Spec{
		Path: server,
		Args: []string{
			"--kubeconfig", p.Kubeconfig, "--authentication-kubeconfig", p.Kubeconfig, "--authorization-kubeconfig", p.Kubeconfig,
			"--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", t.TempDir(), "--metric-resolution", "10s", "--kubelet-request-timeout", "5s",
			"--kubelet-preferred-address-types", "InternalIP", "--kubelet-insecure-tls",
		},
		Log: theLab.Path("metrics-server-" + p.Name + ".log"), Ready: "Serving securely",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of the metrics-server of %s:\n%s", p.Name, m.LogTail())
		}
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	must(t)(p.Apply(t.Context(), metrics.APIService(port)))
	t.Cleanup(func() { // a group that nobody serves holds the deletion of namespaces there
		must(t)(p.Run(context.Background(), "delete", "apiservice/v1beta1.metrics.k8s.io", "--ignore-not-found"))
	})
	must(t)(p.Run(t.Context(), "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=3m"))
}

// usage is what kubectl top says of one thing.
type usage struct{ cpu, memory resource.Quantity }

// topOf is what kubectl top says, by the names of Deployments, or of nodes.
func topOf(n tenant, what string, args ...string) (map[string]usage, error) {
	out, err := n.Run(context.Background(), append([]string{"top", what, "--no-headers"}, args...)...)
	if err != nil {
		return nil, err
	}
	used := map[string]usage{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if what == "pods" { // the namespace comes first
			f = f[1:]
		}
		if len(f) < 3 || f[1] == "<unknown>" {
			continue
		}
		memory := f[2]
		if what == "nodes" { // percents are between
			memory = f[3]
		}
		var u usage
		if u.cpu, err = resource.ParseQuantity(f[1]); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		if u.memory, err = resource.ParseQuantity(memory); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		name, _, _ := strings.Cut(f[0], "-")
		if what == "nodes" {
			name = f[0]
		}
		used[name] = u
	}
	return used, nil
}
