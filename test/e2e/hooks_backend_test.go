package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// backend is what is in the pods of a Service: webhooks and an API.
type backend struct {
	*httptest.Server
	port        int
	connections atomic.Int32

	mu    sync.Mutex
	names map[string]bool
}

func startBackend(t *testing.T, cert, key []byte) *backend {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{names: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mutate", b.review(func(_ *admissionv1.AdmissionRequest, r *admissionv1.AdmissionResponse) {
		r.Allowed, r.PatchType = true, ptr.To(admissionv1.PatchTypeJSONPatch)
		r.Patch = []byte(`[{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}}]`)
	}))
	mux.HandleFunc("/validate", b.review(func(q *admissionv1.AdmissionRequest, r *admissionv1.AdmissionResponse) {
		if r.Allowed = !strings.HasPrefix(q.Name, "bad"); !r.Allowed {
			r.Result = &metav1.Status{Message: "it is bad"}
		}
	}))
	mux.HandleFunc("/inject", b.review(inject))
	mux.HandleFunc("/convert", b.convert)
	mux.HandleFunc("/apis/fruits.example.org/v1", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"fruits.example.org/v1","resources":[{"name":"fruits","singularName":"fruit","namespaced":false,"kind":"Fruit","verbs":["get","list"]}]}`)
	})
	mux.HandleFunc("/apis/fruits.example.org/v1/fruits", func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "fruits for %s at %s", req.Header.Get("X-Remote-User"), req.Host)
	})
	mux.HandleFunc("/length", func(w http.ResponseWriter, req *http.Request) {
		n, _ := io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, n)
	})
	mux.HandleFunc("/apis/fruits.example.org/v1/fruits/echo", func(w http.ResponseWriter, _ *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, in)
	})
	b.Server = httptest.NewUnstartedServer(mux)
	b.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.names[hello.ServerName] = true
		return nil, nil
	}}
	b.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			b.connections.Add(1)
		}
	}
	b.StartTLS()
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	b.port = b.Listener.Addr().(*net.TCPAddr).Port
	return b
}

// serverNames are those by which it was called.
func (b *backend) serverNames() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.names {
		names = append(names, name)
	}
	return names
}

func (b *backend) review(decide func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID}
		decide(review.Request, review.Response)
		answer(w, review)
	}
}

// inject puts a container into pods, and a directory of the node into those that ask for it.
func inject(q *admissionv1.AdmissionRequest, r *admissionv1.AdmissionResponse) {
	r.Allowed, r.PatchType = true, ptr.To(admissionv1.PatchTypeJSONPatch)
	patch := `{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"busybox"}},{"op":"add","path":"/metadata/labels/injected","value":"yes"}`
	if strings.Contains(string(q.Object.Raw), `"wants":"host"`) {
		patch += `,{"op":"add","path":"/spec/volumes/-","value":{"name":"host","hostPath":{"path":"/"}}}`
	}
	r.Patch = []byte("[" + patch + "]")
}

func (b *backend) convert(w http.ResponseWriter, req *http.Request) {
	review := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(req.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		obj.SetAPIVersion(review.Request.DesiredAPIVersion)
		obj.Object["converted"] = "yes"
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: obj})
	}
	answer(w, review)
}

func answer(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
