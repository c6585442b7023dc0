// Package server runs the real server inside a test: embedded etcd, every
// controller, TLS and all. Each test that starts one owns it; tests that can
// share one take a logical cluster each, which isolates them as it isolates users.
package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Server is a running server and the admin's clients, which take the logical
// cluster of each call from its context.
type Server struct {
	*app.Server
	// Dir is the data directory.
	Dir string
	// Config is the admin's configuration, not scoped.
	Config *rest.Config

	Kube    kubernetes.Interface
	Atoll   versioned.Interface
	Dynamic dynamic.Interface

	stop context.CancelFunc
}

// Start runs a server on a new data directory until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartIn(t, t.TempDir())
}

// StartIn runs a server on a data directory until the test ends or Stop.
func StartIn(t testing.TB, dir string) *Server {
	t.Helper()
	s := start(t, dir)
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// StartOn runs a server on an etcd that the test runs, until Stop.
func StartOn(t testing.TB, dir string, endpoints ...string) *Server {
	t.Helper()
	return start(t, dir, endpoints...)
}

// StartBeside runs one more server on the etcd of s, with its keys and a data directory
// of its own, until Stop.
func StartBeside(t testing.TB, s *Server, endpoints ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(s.Dir, "pki"))); err != nil {
		t.Fatalf("copying the keys: %v", err)
	}
	return start(t, dir, endpoints...)
}

// StartSharedWith runs a server with other options for a whole package, until
// Shutdown.
func StartSharedWith(t testing.TB, change func(*app.Options)) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "atoll-test-")
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, dir, change)
}

// StartWith is Start with other options.
func StartWith(t testing.TB, change func(*app.Options)) *Server {
	t.Helper()
	s := startWith(t, t.TempDir(), change)
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// Shutdown ends a shared server and removes its data.
func (s *Server) Shutdown() {
	s.stop()
	_ = s.Wait()
	_ = os.RemoveAll(s.Dir)
	if err := s.Check(); err != nil {
		panic("the server is damaged: " + err.Error())
	}
}

func start(t testing.TB, dir string, etcd ...string) *Server {
	t.Helper()
	return startWith(t, dir, func(o *app.Options) { o.EtcdServers = etcd })
}

func startWith(t testing.TB, dir string, change func(*app.Options)) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := app.NewOptions()
	o.DataDir, o.Listen, o.UnsafeNoSync = dir, "127.0.0.1:0", true
	o.Egress.Allow = []string{"127.0.0.0/8"} // webhooks of tests are on this machine
	change(o)
	running, err := app.Start(ctx, *o)
	if err != nil {
		cancel()
		t.Fatalf("starting the server: %v", err)
	}
	s := &Server{Server: running, Dir: dir, stop: cancel}
	if s.Config, err = clientcmd.BuildConfigFromFlags("", running.Kubeconfig); err != nil {
		t.Fatalf("reading the kubeconfig: %v", err)
	}
	s.Config.Host = strings.TrimSuffix(s.Config.Host, scope.Scope{Cluster: scope.Root}.Path())
	s.Config.QPS = -1
	scoped := scope.ScopedConfig(s.Config)
	s.Kube = kubernetes.NewForConfigOrDie(scoped)
	s.Atoll = versioned.NewForConfigOrDie(scoped)
	s.Dynamic = dynamic.NewForConfigOrDie(scoped)
	return s
}

// Stop ends the server and waits for it; a second call does nothing.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.stop()
	if err := s.Wait(); err != nil {
		t.Errorf("the server ended with: %v", err)
	}
	if err := s.Check(); err != nil {
		t.Errorf("the server is damaged: %v", err)
	}
}

// SystemConfig is that of a client which the server takes for itself: tests use it
// to play parts that controllers have.
func (s *Server) SystemConfig(t testing.TB) *rest.Config {
	t.Helper()
	keys, err := pki.Load(filepath.Join(s.Dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(s.Config)
	config.CertData, config.KeyData, err = keys.Client(user.APIServerUser, user.SystemPrivilegedGroup)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return scope.ScopedConfig(config)
}

// NewCluster makes a logical cluster and returns a context about it.
func (s *Server) NewCluster(t testing.TB, name string) context.Context {
	t.Helper()
	ctx := t.Context()
	cluster := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(scope.WithCluster(ctx, scope.Root), cluster, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating logical cluster %s: %v", name, err)
	}
	return scope.WithCluster(ctx, logicalcluster.Name(name))
}

// Eventually polls until check returns no error, or fails the test with the last.
func Eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
