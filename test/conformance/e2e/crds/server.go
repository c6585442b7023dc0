// Package fixtures stands in for the server fixture of the integration tests of
// k8s.io/apiextensions-apiserver: instead of starting a server, each test gets a
// fresh logical cluster of one that runs. hack/crd-suite.sh puts this file into a
// copy of that module and runs its tests.
//
//	ATOLL_KUBECONFIG           the admin's kubeconfig, with the context root
//	KUBE_INTEGRATION_ETCD_URL  the etcd of the server: some tests look into it
//
// A test that starts its server with other flags is skipped: it is about those.
package fixtures

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	serveroptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var logicalClusters = schema.GroupVersionResource{Group: "tenancy.atoll.dev", Version: "v1alpha1", Resource: "logicalclusters"}

var made atomic.Int32

// server is a logical cluster.
type server struct {
	config *rest.Config
	// prefix is where its objects are in etcd; etcdkey knows how to read it.
	prefix   string
	tearDown func()
}

func start(t servertesting.Logger, flags ...string) (*server, error) {
	for _, flag := range flags {
		if skip, ok := t.(interface{ Skipf(string, ...any) }); ok && !strings.HasPrefix(flag, "--watch-cache=") {
			skip.Skipf("the test is about a server with the flag %s", flag)
		}
	}
	admin, err := clientcmd.BuildConfigFromFlags("", os.Getenv("ATOLL_KUBECONFIG"))
	if err != nil {
		return nil, fmt.Errorf("reading ATOLL_KUBECONFIG: %w", err)
	}
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	name := fmt.Sprintf("crds-%d-%d", os.Getpid(), made.Add(1))
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(logicalClusters.GroupVersion().WithKind("LogicalCluster"))
	cluster.SetName(name)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := client.Resource(logicalClusters).Create(ctx, cluster, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making a logical cluster: %w", err)
	}
	config := rest.CopyConfig(admin)
	config.Host = strings.TrimSuffix(admin.Host, "/clusters/root") + "/clusters/" + name
	config.QPS, config.Burst = 1000, 1000 // as those of the server that the suite would start itself
	namespaces, err := corev1client.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &namespacer{next: next, client: namespaces.Namespaces()}
	})
	return &server{config: config, prefix: "registry/" + name, tearDown: func() {
		_ = client.Resource(logicalClusters).Delete(context.Background(), name, metav1.DeleteOptions{})
	}}, nil
}

// namespacer makes the namespaces that requests name: the server that the suite
// would start does not ask for them.
type namespacer struct {
	next   http.RoundTripper
	client corev1client.NamespaceInterface
	known  sync.Map
}

var inNamespace = regexp.MustCompile(`/namespaces/([^/]+)/`)

// RoundTrip implements http.RoundTripper.
func (n *namespacer) RoundTrip(req *http.Request) (*http.Response, error) {
	if m := inNamespace.FindStringSubmatch(req.URL.Path); m != nil {
		if _, known := n.known.LoadOrStore(m[1], true); !known {
			_, _ = n.client.Create(req.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m[1]}}, metav1.CreateOptions{})
		}
	}
	return n.next.RoundTrip(req)
}

// options say where the objects are, and nothing else.
func (s *server) options() *serveroptions.CustomResourceDefinitionsServerOptions {
	o := serveroptions.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	o.RecommendedOptions.Etcd.StorageConfig.Prefix = s.prefix
	o.RecommendedOptions.Etcd.StorageConfig.Transport.ServerList = IntegrationEtcdServers()
	o.RecommendedOptions.Etcd.DefaultStorageMediaType = "application/json"
	return o
}

// StartDefaultServer gives a logical cluster.
func StartDefaultServer(t servertesting.Logger, flags ...string) (func(), *rest.Config, *serveroptions.CustomResourceDefinitionsServerOptions, error) {
	s, err := start(t, flags...)
	if err != nil {
		return nil, nil, nil, err
	}
	return s.tearDown, s.config, s.options(), nil
}

// StartDefaultServerWithConfigAccess gives a logical cluster, and a configuration
// by which its objects are found in etcd.
func StartDefaultServerWithConfigAccess(t servertesting.Logger, flags ...string) (func(), *rest.Config, apiserver.CompletedConfig, error) {
	s, err := start(t, flags...)
	if err != nil {
		return nil, nil, apiserver.CompletedConfig{}, err
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	generic.LoopbackClientConfig, generic.ExternalAddress = s.config, "127.0.0.1:443"
	generic.RESTOptionsGetter = serveroptions.NewCRDRESTOptionsGetter(*s.options().RecommendedOptions.Etcd, nil, nil)
	config := apiserver.Config{GenericConfig: generic}
	return s.tearDown, s.config, config.Complete(), nil
}

// StartDefaultServerWithClients gives clients of a logical cluster.
func StartDefaultServerWithClients(t servertesting.Logger, flags ...string) (func(), clientset.Interface, dynamic.Interface, error) {
	s, err := start(t, flags...)
	if err != nil {
		return nil, nil, nil, err
	}
	definitions, err := clientset.NewForConfig(s.config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a client: %w", err)
	}
	return s.tearDown, definitions, objects, nil
}

// StartDefaultServerWithClientsAndEtcd skips the test: those that need it write
// definitions of the removed version v1beta1 into etcd, of which ours never had any.
func StartDefaultServerWithClientsAndEtcd(t servertesting.Logger, _ ...string) (func(), clientset.Interface, dynamic.Interface, *clientv3.Client, string, error) {
	t.(interface{ Skip(...any) }).Skip("the test is about definitions that an older server left in etcd")
	return nil, nil, nil, nil, "", nil
}

// IntegrationEtcdServers are the endpoints of the server's etcd.
func IntegrationEtcdServers() []string { return []string{os.Getenv(etcdURL)} }

const etcdURL = "KUBE_INTEGRATION_ETCD_URL"

// init gives etcd a port: the tests speak TLS to everything but http.
func init() {
	socket, ok := strings.CutPrefix(os.Getenv(etcdURL), "unix://")
	if !ok {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv(etcdURL, "http://"+listener.Addr().String())
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(client, socket)
		}
	}()
}

func forward(client net.Conn, socket string) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}
