// Package metrics is a metrics-server that measures nothing: it serves metrics.k8s.io for a
// physical cluster, behind that one's aggregator, with figures that follow from names. All
// between kubectl and it is real.
package metrics

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// PerLetter is what a container uses for each letter of its name, in thousandths of a
// processor and in MiB; a node uses NodeUse of both.
const (
	PerLetter = 10
	NodeUse   = 1000
)

// Server is a metrics-server.
type Server struct {
	kube   kubernetes.Interface
	server *httptest.Server
	invent atomic.Value // Invent
}

// Invent adds to a list of pods.
type Invent func(namespace string, list *metricsv1beta1.PodMetricsList)

// Invents has the server say more than it knows.
func (s *Server) Invents(more Invent) { s.invent.Store(more) }

// Offer gives a physical cluster a metrics-server, behind its own aggregator, until the test ends. The
// kubectl is its admin's.
func Offer(t testing.TB, k process.Kubectl) *Server {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s, ctx := Start(kube), context.Background()
	t.Cleanup(s.Stop)
	if _, err := k.Apply(ctx, s.APIService()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a group that nobody serves holds the deletion of namespaces there
		if _, err := k.Run(ctx, "delete", "apiservice/v1beta1.metrics.k8s.io", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	if _, err := k.Run(ctx, "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start serves on a loopback address the metrics of the pods that kube lists.
func Start(kube kubernetes.Interface) *Server {
	s := &Server{kube: kube}
	const base = "/apis/" + metricsv1beta1.GroupName + "/v1beta1"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, nil, &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: metricsv1beta1.SchemeGroupVersion.String(),
			APIResources: []metav1.APIResource{
				{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
				{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
			},
		})
	})
	mux.HandleFunc("GET "+base+"/namespaces/{namespace}/pods", func(w http.ResponseWriter, req *http.Request) {
		list, err := s.pods(req.Context(), req.PathValue("namespace"))
		answer(w, err, list)
	})
	mux.HandleFunc("GET "+base+"/nodes", func(w http.ResponseWriter, req *http.Request) {
		list, err := s.nodes(req.Context())
		answer(w, err, list)
	})
	s.server = httptest.NewTLSServer(mux)
	return s
}

// Stop ends the server.
func (s *Server) Stop() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// APIService are the objects that register the server with an aggregator.
func (s *Server) APIService() string {
	return APIService(strconv.Itoa(s.server.Listener.Addr().(*net.TCPAddr).Port))
}

// APIService are the objects that register a metrics-server at a port of this machine with an aggregator.
func APIService(port string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  service: {name: metrics-server, namespace: kube-system, port: %s}
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`, port)
}

func (s *Server) pods(ctx context.Context, namespace string) (*metricsv1beta1.PodMetricsList, error) {
	pods, err := s.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: metricsv1beta1.SchemeGroupVersion.String()}}
	for i := range pods.Items {
		p := &pods.Items[i]
		m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: 15 * time.Second}}
		for c := range p.Spec.Containers {
			name := p.Spec.Containers[c].Name
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: name, Usage: Usage(PerLetter * int64(len(name)))})
		}
		list.Items = append(list.Items, m)
	}
	if more, ok := s.invent.Load().(Invent); ok && more != nil {
		more(namespace, list)
	}
	return list, nil
}

func (s *Server) nodes(ctx context.Context) (*metricsv1beta1.NodeMetricsList, error) {
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &metricsv1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{Kind: "NodeMetricsList", APIVersion: metricsv1beta1.SchemeGroupVersion.String()}}
	for i := range nodes.Items {
		list.Items = append(list.Items, metricsv1beta1.NodeMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: nodes.Items[i].Name}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: 15 * time.Second}, Usage: Usage(NodeUse),
		})
	}
	return list, nil
}

// Usage is n thousandths of a processor and n MiB.
func Usage(n int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(n, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(n<<20, resource.BinarySI),
	}
}

func answer(w http.ResponseWriter, err error, what any) {
	data, encodeErr := json.Marshal(what)
	if err = cmp.Or(err, encodeErr); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
