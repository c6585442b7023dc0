package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// desk is a directory in which an admin types: a server of its own that knows no physical
// cluster, and the kubeconfigs of those of the lab.
type desk struct {
	t   *testing.T
	dir string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	if err := process.Missing("kubectl-atoll"); err != nil {
		t.Skip(err)
	}
	d := &desk{t: t, dir: t.TempDir()}
	listen, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	server, err := process.Start(t.Context(), process.Spec{
		Path:  process.Binary("atoll"),
		Args:  []string{"start", "--data-dir", filepath.Join(d.dir, "atoll"), "--listen", listen},
		Log:   filepath.Join(d.dir, "atoll.log"),
		Ready: "atoll serves at ",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", server.LogTail())
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []*physicalCluster{theLab.east, theLab.west} {
		data, err := os.ReadFile(p.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		d.write(p.name+".kubeconfig", data)
	}
	return d
}

func (d *desk) write(name string, data []byte) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), data, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// types runs a script as an admin would type it, and returns what it printed.
func (d *desk) types(script string) (string, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.WaitDelay = d.dir, time.Second
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Dir(process.Binary("kubectl"))+":"+os.Getenv("PATH"),
		"KUBECONFIG="+filepath.Join(d.dir, "atoll", "admin.kubeconfig"), "KUBECACHEDIR="+filepath.Join(d.dir, "cache"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestEveryCommandOfTheCLIPageWorks types what docs/cli.md shows, in its order.
func TestEveryCommandOfTheCLIPageWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(process.Root(), "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range shellBlock.FindAllSubmatch(page, -1) {
		script.Write(block[1])
	}
	out, err := newDesk(t).types("set -x\n" + script.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"east is Ready", "west is Ready", "atoll-syncer --physical-cluster edge", "secret/west-kubeconfig deleted in namespace atoll-system",
		`Switched to context "shop"`, "Namespace web is placed on ", "ClusterPlacementPolicy west is valid and would be created.",
		"1 namespace: 0 would move, 1 would have nowhere to go", "namespace/web moves to west", "on west\n",
		"1 namespace: 1 would move, 0 would have nowhere to go", "physicalcluster.fleet.atoll.dev/west draining", "1 of 1 namespaces have left, copies left: 0",
		"west is drained: ", "logicalcluster.tenancy.atoll.dev/shop deleted",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q was not printed", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestAPhysicalClusterIsUpgradedAsThePageSays types what docs/upgrading.md shows, while
// somebody watches the endpoints of the Service that moves.
func TestAPhysicalClusterIsUpgradedAsThePageSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(process.Root(), "docs", "upgrading.md"))
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	for from, to := range map[string]string{"east": "blue", "west": "green"} {
		if err := os.Rename(filepath.Join(d.dir, from+".kubeconfig"), filepath.Join(d.dir, to+".kubeconfig")); err != nil {
			t.Fatal(err)
		}
	}
	var o *observer
	var printed strings.Builder
	for _, block := range shellBlock.FindAllSubmatch(page, -1) {
		out, err := d.types("set -x\n" + string(block[1]))
		if printed.WriteString(out); err != nil {
			t.Fatalf("%v\n%s", err, printed.String())
		}
		if o == nil { // the first block makes what moves
			shop := process.Kubectl{Kubeconfig: filepath.Join(d.dir, "atoll", "admin.kubeconfig"), Context: "shop"}
			eventually(t, func() error { return endpoints(t.Context(), shop.In("web"), 3) })
			o = observe(t, shop, "web")
		}
	}
	if least, _ := o.read(); least < 3 {
		t.Errorf("there was a moment with %d ready endpoints of 3", least)
	}
	for _, want := range []string{
		"green is Ready", "namespace/trial moves to green", "1 namespace: 1 would move, 0 would have nowhere to go",
		"blue is drained: ", "physicalcluster.fleet.atoll.dev/blue condition met", "secret/blue-kubeconfig deleted in namespace atoll-system",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q was not printed", want)
		}
	}
	if t.Failed() {
		t.Log(printed.String())
	}
}

// What register asks for is what a syncer needs: a ServiceAccount with just that can be
// registered, and what is placed there runs. One with less is refused, with what it lacks.
func TestAServiceAccountThatMayDoWhatRegisterAsksForIsEnough(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	west := theLab.west
	ctx := context.Background()
	role := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-syncer"}, Rules: edit.Needs(workload.Builtin()),
	}
	manifest, err := yaml.Marshal(role)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(west.Run(ctx, "create", "serviceaccount", "e2e-syncer", "--namespace=default"))
	t.Cleanup(func() {
		must(t)(west.Run(ctx, "delete", "clusterrole/e2e-syncer", "clusterrolebinding/e2e-syncer", "--ignore-not-found"))
		must(t)(west.Run(ctx, "delete", "serviceaccount/e2e-syncer", "--namespace=default"))
	})
	must(t)(west.Run(ctx, "create", "clusterrolebinding", "e2e-syncer", "--clusterrole=e2e-syncer", "--serviceaccount=default:e2e-syncer"))
	token := strings.TrimSpace(must(t)(west.Run(ctx, "create", "token", "e2e-syncer", "--namespace=default")))
	config, err := clientcmd.LoadFromFile(west.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{config.Contexts[config.CurrentContext].AuthInfo: {Token: token}}
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	d.write("account.kubeconfig", data)

	const register = "kubectl atoll register west --physical-kubeconfig account.kubeconfig"
	if out, err := d.types(register); err == nil || !strings.Contains(out, "must permit to get the namespace kube-system") {
		t.Fatalf("without any right: %v\n%s", err, out)
	}
	less := role
	less.Rules = append([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}}, role.Rules[1:]...)
	lessManifest, err := yaml.Marshal(less)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(west.Apply(ctx, string(lessManifest)))
	eventually(t, func() error { // the authorizer follows the roles
		out, err := d.types(register)
		if err == nil {
			return fmt.Errorf("it is registered without rights to write:\n%s", out)
		}
		if !strings.Contains(out, "grant their user, in all namespaces:") || !strings.Contains(out, "create namespaces") {
			return fmt.Errorf("what lacks is not said: %v\n%s", err, out)
		}
		return nil
	})
	must(t)(west.Apply(ctx, string(manifest)))
	eventually(t, func() error {
		out, err := d.types("for right in create/configmaps watch/replicasets.apps; do kubectl --kubeconfig account.kubeconfig auth can-i ${right%/*} ${right#*/} -A; done")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	out, err := d.types(register + `
kubectl atoll lc create shop
kubectl atoll lc use shop
kubectl apply -f ` + filepath.Join(process.Root(), "config", "samples", "hello.yaml") + `
kubectl -n hello rollout status deployment/hello --timeout=120s
kubectl atoll where deployment/hello -n hello
kubectl -n hello scale deployment/hello --replicas=1
kubectl -n hello rollout status deployment/hello --timeout=120s
kubectl delete namespace hello --timeout=120s
kubectl atoll lc use root
kubectl atoll lc delete shop
kubectl atoll unregister west`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
