package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// extension is an extension API server: it keeps fruits, which have no namespace.
type extension struct {
	*httptest.Server
	group string
	// instead, if not nil, answers in place of everything.
	instead http.HandlerFunc

	// trust is the ConfigMap by which it knows the control plane; nil trusts all.
	trust map[string]string

	mu     sync.Mutex
	fruits map[string]*unstructured.Unstructured
	seen   []*http.Request
	added  chan *unstructured.Unstructured
}

// startExtension runs one until the test ends; its certificates are for
// example.com unless some are given.
func startExtension(t *testing.T, group string, certificates ...tls.Certificate) *extension {
	t.Helper()
	e := &extension{group: group, fruits: map[string]*unstructured.Unstructured{}, added: make(chan *unstructured.Unstructured, 8)}
	e.Server = httptest.NewUnstartedServer(e)
	e.Server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, Certificates: certificates}
	e.EnableHTTP2 = true
	e.StartTLS()
	t.Cleanup(func() { e.CloseClientConnections(); e.Close() })
	return e
}

// answers has f answer everything; nil, the server again.
func (e *extension) answers(f http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.instead = f
}

func (e *extension) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: e.group, Version: "v1", Resource: "fruits"}
}

// trusts has the server verify the control plane by what a logical cluster says.
func (e *extension) trusts(ctx context.Context, t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	var data map[string]string
	eventually(t, "the logical cluster says who speaks for users", func() error {
		known, err := kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err == nil {
			data = known.Data
		}
		return err
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trust = data
}

// user is who the control plane says that asks; empty if it is not believed.
func (e *extension) user(req *http.Request) string {
	e.mu.Lock()
	trust := e.trust
	e.mu.Unlock()
	if trust == nil {
		return req.Header.Get("X-Remote-User")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(trust["requestheader-client-ca-file"]))
	list := func(key string) headerrequest.StringSliceProvider {
		var out []string
		_ = json.Unmarshal([]byte(trust[key]), &out)
		return headerrequest.StaticStringSlice(out)
	}
	verify := func() (x509.VerifyOptions, bool) {
		return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
	}
	authenticator := headerrequest.NewDynamicVerifyOptionsSecure(verify, list("requestheader-allowed-names"), list("requestheader-username-headers"),
		list("requestheader-uid-headers"), list("requestheader-group-headers"), list("requestheader-extra-headers-prefix"))
	who, ok, err := authenticator.AuthenticateRequest(req.Clone(req.Context()))
	if err != nil || !ok {
		return ""
	}
	return who.User.GetName()
}

func (e *extension) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e.mu.Lock()
	e.seen = append(e.seen, req.Clone(context.WithoutCancel(req.Context())))
	instead := e.instead
	e.mu.Unlock()
	if instead != nil {
		instead(w, req)
		return
	}
	if e.user(req) == "" {
		http.Error(w, "nobody that I know speaks for users", http.StatusUnauthorized)
		return
	}
	prefix := "/apis/" + e.group + "/v1"
	switch path := req.URL.Path; {
	case path == prefix:
		answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: e.group + "/v1", APIResources: []metav1.APIResource{
			{Name: "fruits", SingularName: "fruit", Kind: "Fruit", Verbs: metav1.Verbs{"get", "list", "watch", "create"}, ShortNames: []string{"fr"}},
			{Name: "fruits/status", Kind: "Fruit", Verbs: metav1.Verbs{"get"}},
		}})
	case path == "/openapi/v3":
		answer(w, map[string]any{"paths": map[string]any{"apis/" + e.group + "/v1": map[string]any{"serverRelativeURL": "/openapi/v3/apis/" + e.group + "/v1?hash=ABC"}}})
	case path == "/openapi/v3"+prefix:
		answer(w, map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "fruits of " + e.group}})
	case path == prefix+"/fruits" && req.Method == http.MethodPost:
		e.create(w, req)
	case path == prefix+"/fruits" && req.URL.Query().Get("watch") != "":
		e.watch(w, req)
	case path == prefix+"/fruits":
		e.list(w)
	case strings.HasPrefix(path, prefix+"/fruits/"):
		e.get(w, strings.TrimPrefix(path, prefix+"/fruits/"))
	default:
		http.NotFound(w, req)
	}
}

func answer(w http.ResponseWriter, obj any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Set-Cookie", "session=stolen")
	_ = json.NewEncoder(w).Encode(obj)
}

func (e *extension) create(w http.ResponseWriter, req *http.Request) {
	obj := &unstructured.Unstructured{}
	if err := json.NewDecoder(req.Body).Decode(&obj.Object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	obj.SetUID(types.UID("uid-" + obj.GetName()))
	obj.SetResourceVersion(strconv.Itoa(len(e.fruits) + 1))
	e.fruits[obj.GetName()] = obj
	e.mu.Unlock()
	e.added <- obj
	answer(w, obj)
}

func (e *extension) list(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	items := []any{}
	for _, f := range e.fruits {
		items = append(items, f.Object)
	}
	answer(w, map[string]any{"apiVersion": e.group + "/v1", "kind": "FruitList", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
}

func (e *extension) get(w http.ResponseWriter, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.fruits[name]; ok {
		answer(w, f)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
}

// watch tells of what is created, until the client goes.
func (e *extension) watch(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-req.Context().Done():
			return
		case obj := <-e.added:
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": obj})
			w.(http.Flusher).Flush()
		}
	}
}

// requests are those that were seen of a user.
func (e *extension) requests(user string) []*http.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*http.Request
	for _, req := range e.seen {
		if req.Header.Get("X-Remote-User") == user {
			out = append(out, req)
		}
	}
	return out
}

// register makes a Service at host and an APIService for the group that names it;
// what the APIService says about TLS fits e.
func (e *extension) register(ctx context.Context, t *testing.T, s *server.Server, host string) {
	t.Helper()
	at, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ReplaceAll(e.group, ".", "-")
	service(ctx, t, s, name, host)
	create(ctx, t, s, apiServices, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + e.group},
		"spec": map[string]any{
			"group": e.group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "default", "name": name, "port": int64(port)},
		},
	})
}
