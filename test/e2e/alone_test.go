package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// alone is a server that shares its data directory with no other test.
type alone struct {
	dir     string
	server  *process.Process
	log     string
	address string
	config  *rest.Config
	kube    kubernetes.Interface
	// acknowledged are the ConfigMaps that the server said to have stored.
	acknowledged map[string]string
	// unknown are those of which it said that it does not know.
	unknown map[string]bool
}

// shortDir is a directory that may have a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "alone")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startAlone starts a server with its data in dir; through, if not nil, changes how.
func startAlone(t *testing.T, dir string, through func(process.Spec) process.Spec) *alone {
	t.Helper()
	d := &alone{dir: dir, log: theLab.path(filepath.Base(dir) + ".log"), acknowledged: map[string]string{}, unknown: map[string]bool{}}
	var err error
	if d.address, err = ports.Address("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	spec := process.Spec{
		Path: process.Binary("atoll"), Args: []string{"start", "--data-dir", filepath.Join(dir, "atoll"), "--listen", d.address, "--logical-cluster", "shop"},
		Log: d.log, Ready: "atoll serves at ",
	}
	if through != nil {
		spec = through(spec)
	}
	if d.server, err = process.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.server.Running() {
			d.server.Kill()
		}
		if t.Failed() {
			t.Logf("end of the log:\n%s", d.server.LogTail())
		}
	})
	d.config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: filepath.Join(dir, "atoll", "admin.kubeconfig")},
		&clientcmd.ConfigOverrides{CurrentContext: "shop"}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	d.config.QPS, d.config.Timeout = -1, 30*time.Second
	if d.kube, err = kubernetes.NewForConfig(d.config); err != nil {
		t.Fatal(err)
	}
	return d
}

// write creates a large ConfigMap and notes it if the server says that it is stored.
func (d *alone) write(ctx context.Context, name string) error {
	return d.writeOf(ctx, name, strings.Repeat(name+" ", 900_000/(len(name)+1)))
}

// writeOf is write of less.
func (d *alone) writeOf(ctx context.Context, name, content string) error {
	_, err := d.kube.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"content": content}}, metav1.CreateOptions{})
	switch {
	case err == nil:
		d.acknowledged[name] = content
	case apierrors.IsTimeout(err):
		d.unknown[name] = true
	}
	return err
}

// check compares what there is with what was acknowledged.
func (d *alone) check(t *testing.T) {
	t.Helper()
	list, err := d.kube.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]string{}
	for _, c := range list.Items {
		if _, acknowledged := d.acknowledged[c.Name]; c.Name != "kube-root-ca.crt" && (acknowledged || !d.unknown[c.Name]) {
			stored[c.Name] = c.Data["content"]
		}
	}
	for name, content := range d.acknowledged {
		if stored[name] != content {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
	if len(stored) != len(d.acknowledged) {
		t.Errorf("there are %d ConfigMaps, want %d", len(stored), len(d.acknowledged))
	}
}

func (d *alone) recovers(t *testing.T, name string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for err := d.write(t.Context(), name); err != nil; err = d.write(t.Context(), name) {
		if time.Now().After(deadline) {
			t.Fatalf("the server takes no writes although there is room: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
