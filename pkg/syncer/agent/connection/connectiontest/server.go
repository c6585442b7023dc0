// Package connectiontest has as much of an API server as it takes to find out who
// answers, and a name that leads to one or another.
package connectiontest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterServer is as much of an API server as these tests need: kube-system, our
// namespaces, and a note of everything that is written.
type ClusterServer struct {
	*httptest.Server
	mu        sync.Mutex
	UID       types.UID
	Forbidden bool
	Ours      int
	// Fails are the paths that are answered with a status.
	Fails   map[string]int
	written []string
	Asked   int
}

func NewClusterServer(t *testing.T, uid types.UID, http2 bool) *ClusterServer {
	s := &ClusterServer{UID: uid}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *ClusterServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case req.Method != http.MethodGet:
		if err != nil {
			return // it was not meant for us
		}
		s.written = append(s.written, req.Method+" "+string(body))
		answer(metav1.Status{Status: "Success"})
	case req.URL.Path == "/api/v1/namespaces/kube-system":
		s.Asked++
		if s.Forbidden {
			status := apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", nil).Status()
			w.WriteHeader(int(status.Code))
			answer(status)
			return
		}
		n := KubeSystem(s.UID)
		n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}
		answer(n)
	case s.Fails[req.URL.Path] != 0:
		w.WriteHeader(s.Fails[req.URL.Path])
	case discovered[req.URL.Path] != "":
		_, _ = io.WriteString(w, discovered[req.URL.Path])
	default:
		list := corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}, Items: make([]corev1.Namespace, s.Ours)}
		answer(list)
	}
}

var discovered = map[string]string{
	"/version": `{"gitVersion":"v1.37.1"}`,
	"/api":     `{"kind":"APIVersions","apiVersion":"v1","versions":["v1"]}`,
	"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1":  `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]}]}`,
}

func (s *ClusterServer) Set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *ClusterServer) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.written...)
}

// Balancer is a name that leads to one cluster or another, as a load Balancer or a
// DNS entry that changes. Connections stay where they are.
type Balancer struct {
	To    atomic.Pointer[ClusterServer]
	Dials atomic.Int32
}

func (b *Balancer) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	b.Dials.Add(1)
	return (&net.Dialer{}).DialContext(ctx, network, b.To.Load().Listener.Addr().String())
}

// KubeSystem is the namespace whose UID says which cluster it is in.
func KubeSystem(uid types.UID) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
}
