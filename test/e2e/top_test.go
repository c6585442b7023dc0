package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/atoll-dev/atoll/test/framework/metrics"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestKubectlTop has two physical clusters with metrics, one that the server connects to and
// one behind a syncer, and two logical clusters whose namespaces have the same names.
func TestKubectlTop(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cove, _ := theLab.startPull(t, "cove")
	quay := theLab.addPush(t, "quay")
	theLab.setApart(t, "cove")
	measureCove, measureQuay := metrics.Offer(t, cove.Kubectl), metrics.Offer(t, quay.Kubectl)
	shop, bank := theLab.newCluster(t), theLab.newCluster(t)
	for _, k := range []process.Kubectl{shop, bank} {
		for namespace, target := range map[string]string{"web": "cove", "db": "quay"} {
			must(t)(k.Apply(ctx, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, annotations: {placement.atoll.dev/cluster: %s}}}", namespace, target)))
		}
	}
	must(t)(shop.In("web").Apply(ctx, deployment("app", 2)))
	must(t)(shop.In("web").Apply(ctx, twoContainers))
	must(t)(shop.In("db").Apply(ctx, deployment("store", 1)))
	must(t)(bank.In("web").Apply(ctx, deployment("app", 3)))
	for k, names := range map[process.Kubectl][]string{shop.In("web"): {"app"}, shop.In("db"): {"store"}, bank.In("web"): {"app"}} {
		for _, name := range names {
			must(t)(k.Run(ctx, "rollout", "status", "deployment/"+name, "--timeout=3m"))
		}
	}
	must(t)(shop.In("web").Run(ctx, "wait", "--for=condition=Ready", "pod/alone", "--timeout=3m"))

	all := []string{"db store 30m 30Mi", "web alone 80m 80Mi", "web app 30m 30Mi", "web app 30m 30Mi"}
	eventually(t, func() error { return top(shop, "", all, "pods", "-A") })
	for _, c := range []struct {
		what string
		k    process.Kubectl
		want []string
		args []string
	}{
		{"those of the other logical cluster are others", bank, []string{"web app 30m 30Mi", "web app 30m 30Mi", "web app 30m 30Mi"}, []string{"pods", "-A"}},
		{"a namespace", shop.In("db"), []string{"store 30m 30Mi"}, []string{"pods"}},
		{"a pod", shop.In("web"), []string{"alone 80m 80Mi"}, []string{"pods", "alone"}},
		{"containers", shop.In("web"), []string{"alone app 30m 30Mi", "alone flood 50m 50Mi"}, []string{"pods", "alone", "--containers"}},
		{"labels", shop, []string{"db store 30m 30Mi"}, []string{"pods", "-A", "-l", "app=store"}},
	} {
		if err := top(c.k, "", c.want, c.args...); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}

	t.Run("nodes show what is the logical cluster's own", func(t *testing.T) {
		eventually(t, func() error { return nodes(shop, map[string]string{"cove": "140m 140Mi", "quay": "30m 30Mi"}) })
		eventually(t, func() error { return nodes(bank, map[string]string{"cove": "90m 90Mi", "quay": "0m 0Mi"}) })
	})
	t.Run("nodes show all to admins of the physical clusters", func(t *testing.T) {
		eventually(t, func() error {
			return nodes(theLab.root, map[string]string{"cove": "5000m 5000Mi", "quay": "5000m 5000Mi"})
		})
	})
	t.Run("what a physical cluster invents is not shown", func(t *testing.T) {
		measureCove.Invents(func(namespace string, list *metricsv1beta1.PodMetricsList) {
			list.Items = append(list.Items,
				metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Name: "invented", Namespace: namespace}, Containers: []metricsv1beta1.ContainerMetrics{{Name: "app", Usage: metrics.Usage(1)}}},
				metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Name: "alone", Namespace: "default"}, Containers: []metricsv1beta1.ContainerMetrics{{Name: "app", Usage: metrics.Usage(1)}}})
		})
		defer measureCove.Invents(nil)
		if err := top(shop, "", all, "pods", "-A"); err != nil {
			t.Error(err)
		}
	})
	t.Run("who may view sees, who may not gets an error", func(t *testing.T) {
		must(t)(shop.Run(ctx, "create", "serviceaccount", "reader", "-n", "web"))
		must(t)(shop.Run(ctx, "create", "rolebinding", "reader", "-n", "web", "--clusterrole=view", "--serviceaccount=web:reader"))
		as := "--as=system:serviceaccount:web:reader"
		eventually(t, func() error {
			return top(shop.In("web"), "", []string{"alone 80m 80Mi", "app 30m 30Mi", "app 30m 30Mi"}, "pods", as)
		})
		if out, err := shop.In("db").Run(ctx, "top", "pods", as); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("in another namespace: %v, %s", err, out)
		}
	})
	t.Run("a physical cluster that does not measure is a warning", func(t *testing.T) {
		measureQuay.Stop()
		eventually(t, func() error { return top(shop, "figures of physical cluster quay are missing", all[1:], "pods", "-A") })
		eventually(t, func() error { return nodes(shop, map[string]string{"cove": "140m 140Mi"}) })
		if out, err := shop.In("db").Run(ctx, "top", "pods"); err == nil {
			t.Errorf("nothing is known, and kubectl says %q", out)
		}
		must(t)(quay.Run(ctx, "delete", "apiservice/v1beta1.metrics.k8s.io")) // or its namespaces cannot be deleted
	})
}

// addPush starts a physical cluster that the server connects to and registers it, until the
// test ends; only what is pinned goes there.
func (l *lab) addPush(t *testing.T, name string) *physicalCluster {
	t.Helper()
	ctx := context.Background()
	p := l.addPhysical(t, name)
	if err := l.register(ctx, name, p.Kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t)(l.root.Run(ctx, "delete", "physicalcluster/"+name, "--timeout=3m")) })
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+name, "--timeout=3m"))
	return p
}

// top compares what kubectl top prints, with names of pods that a controller made cut off,
// and what it warns of.
func top(k process.Kubectl, warning string, wanted []string, args ...string) error {
	var errs strings.Builder
	cmd := k.Command(context.Background(), slices.Concat([]string{"top"}, args, []string{"--no-headers"})...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("kubectl top: %w\n%s", err, errs.String())
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for i, f := range fields {
			for _, name := range []string{"app", "store"} {
				if strings.HasPrefix(f, name+"-") {
					fields[i] = name
				}
			}
		}
		got = append(got, strings.Join(fields, " "))
	}
	err = want("kubectl top", got, wanted)
	if said := errs.String(); (warning == "") != (said == "") || !strings.Contains(said, warning) {
		err = errors.Join(err, fmt.Errorf("it warns %q, want %q", said, warning))
	}
	return err
}

// nodes compares what kubectl top says of nodes; one that is not wanted has no figure.
func nodes(k process.Kubectl, wanted map[string]string) error {
	out, err := k.Run(context.Background(), "top", "nodes", "--no-headers")
	if err != nil {
		return err
	}
	got := map[string]string{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if name := fields[0]; (name == "cove" || name == "quay") && fields[1] != "<unknown>" {
			got[name] = fields[1] + " " + fields[3]
		}
	}
	return want("kubectl top nodes", got, wanted)
}
