package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	atoll "github.com/atoll-dev/atoll/pkg/cli"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/server"
)

var only server.Shared

func TestMain(m *testing.M) { only.Main(m) }

// world is the server, two physical clusters, and a logical cluster of the test.
type world struct {
	*server.Server
	t *testing.T
	// kubeconfig is the admin's, with a context for root and one for the logical cluster.
	kubeconfig string
	name       string
	ctx        context.Context
}

// newWorld makes a logical cluster. The tests run one after the other: a plugin is one
// process, and so are the flags of its commands.
func newWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{Server: only.Get(t), t: t, name: name}
	w.ctx = w.NewCluster(t, name)
	t.Cleanup(w.leave)
	data, err := app.Kubeconfig(w.Dir, scope.Root.String(), false)
	if err != nil {
		t.Fatal(err)
	}
	w.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(w.kubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	w.ok("lc", "use", name)
	return w
}

// physical makes physical clusters of the test, which are gone when it ends.
func (w *world) physical(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.Register(w.t, name, map[string]string{"name": name})
		w.t.Cleanup(func() { w.forget(name) })
	}
	w.Beat(w.t, names...)
}

// forget removes a physical cluster whatever is on it.
func (w *world) forget(name string) {
	client := w.Atoll.FleetV1alpha1().PhysicalClusters()
	root := scope.WithCluster(context.Background(), scope.Root)
	_, _ = client.Patch(root, name, "application/merge-patch+json", []byte(`{"spec":{"forget":true,"unschedulable":true}}`), metav1.PatchOptions{})
	_ = client.Delete(root, name, metav1.DeleteOptions{})
}

// leave removes the logical cluster, once its physical clusters are given up: what is placed
// on these would start on those of the next test.
func (w *world) leave() {
	clusters, root := w.Atoll.TenancyV1alpha1().LogicalClusters(), scope.WithCluster(context.Background(), scope.Root)
	if err := clusters.Delete(root, w.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Error(err)
	}
	server.Eventually(w.t, time.Minute, "the end of logical cluster "+w.name, func() error {
		left, err := clusters.Get(root, w.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v, %+v", err, left.Status.Conditions)
	})
}

// intercept leads root's requests through a proxy, which calls before ahead of each.
func (w *world) intercept(before func(*http.Request)) {
	w.t.Helper()
	transport, err := rest.TransportFor(w.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	behind, err := url.Parse(w.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		before(r.In)
		r.SetURL(behind)
	}})
	w.t.Cleanup(proxy.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: proxy.URL + scope.Scope{Cluster: scope.Root}.Path()}
	config.Contexts["root"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "root"
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a command of the plugin.
func (w *world) run(args ...string) (stdout, stderr string, err error) {
	w.t.Helper()
	return w.runWith("", args...)
}

func (w *world) runWith(stdin string, args ...string) (stdout, stderr string, err error) {
	w.t.Helper()
	var out, errOut bytes.Buffer
	command := atoll.NewCommand(workload.Builtin(), genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	command.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "--cache-dir", filepath.Join(filepath.Dir(w.kubeconfig), "cache")}, args...))
	command.SetOut(&out)
	err = command.ExecuteContext(w.t.Context())
	return out.String(), errOut.String(), err
}

// ok runs a command that has to succeed.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	out, errOut, err := w.run(args...)
	if err != nil {
		w.t.Fatalf("kubectl atoll %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return out
}

// fails runs a command that has to fail, and say this.
func (w *world) fails(want string, args ...string) {
	w.t.Helper()
	out, errOut, err := w.run(args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		w.t.Errorf("kubectl atoll %s: %v, want %q\n%s%s", strings.Join(args, " "), err, want, out, errOut)
	}
}

// row is that of a table that begins with these cells.
func row(out string, cells ...string) error {
	for line := range strings.Lines(out) {
		if got := strings.Fields(line); len(got) >= len(cells) && strings.Join(got[:len(cells)], " ") == strings.Join(cells, " ") {
			return nil
		}
	}
	return fmt.Errorf("no row %q in:\n%s", strings.Join(cells, " "), out)
}

// wantRow runs a command and wants a row in what it prints.
func (w *world) wantRow(args []string, cells ...string) {
	w.t.Helper()
	if err := row(w.ok(args...), cells...); err != nil {
		w.t.Errorf("kubectl atoll %s: %v", strings.Join(args, " "), err)
	}
}

// deploy makes a namespace with a Deployment, which places it.
func (w *world) deploy(namespace, pin string, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	w.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if pin != "" {
		ns.Annotations = map[string]string{placementv1alpha1.PhysicalClusterAnnotation: pin}
	}
	if _, err := w.Kube.CoreV1().Namespaces().Create(w.ctx, ns, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	return w.deployIn(namespace, change...)
}

// deployIn makes a Deployment.
func (w *world) deployIn(namespace string, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	w.t.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, f := range change {
		f(d)
	}
	d, err := w.Kube.AppsV1().Deployments(namespace).Create(w.ctx, d, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// copied plays the syncer: it records the copy of a Deployment.
func (w *world) copied(d *appsv1.Deployment, target string, state placementv1alpha1.CopyState, reason string) {
	w.t.Helper()
	c := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: d.Name + "-" + target, Namespace: d.Namespace}}
	c.Spec.PhysicalCluster = target
	c.Spec.Object = placementv1alpha1.ObjectReference{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: d.Name, UID: d.UID}
	c.Status.State, c.Status.Reason = state, reason
	system := versioned.NewForConfigOrDie(w.SystemConfig(w.t))
	if _, err := system.PlacementV1alpha1().Copies(d.Namespace).Create(scope.WithCluster(w.t.Context(), logicalcluster.Name(w.name)), c, metav1.CreateOptions{}); err != nil {
		w.t.Fatalf("recording a Copy: %v", err)
	}
}
