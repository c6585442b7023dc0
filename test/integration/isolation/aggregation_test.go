package isolation

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

// handOver makes a Service at host and an APIService that hands a group to it.
func handOver(ctx context.Context, t *testing.T, s *server.Server, group, host string, port int) {
	t.Helper()
	name := strings.ReplaceAll(group, ".", "-")
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"type": "ExternalName", "externalName": host},
	}}
	if _, err := s.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apiService := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + group},
		"spec": map[string]any{"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "default", "name": name, "port": int64(port)}},
	}}
	if _, err := s.Dynamic.Resource(apiServices).Create(ctx, apiService, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitCondition(ctx context.Context, t *testing.T, s *server.Server, group, status string) (message string) {
	t.Helper()
	server.Eventually(t, waitFor, group+" is available="+status, func() error {
		obj, err := s.Dynamic.Resource(apiServices).Get(ctx, "v1."+group, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["status"] == status {
				message, _ = m["message"].(string)
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", conditions)
	})
	return message
}

func TestAnAPIServiceReachesNothingOnTheMachineOfTheServer(t *testing.T) {
	s := closed(t)
	target, reached := locked(t)
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	ctx := s.NewCluster(t, "inside")
	for i, host := range []string{"127.0.0.1", "localhost", "169.254.169.254"} {
		group := fmt.Sprintf("g%d.example.org", i)
		handOver(ctx, t, s, group, host, port)
		message := awaitCondition(ctx, t, s, group, "False")
		if !strings.Contains(message, fmt.Sprintf("%s%s:%d", deniedWords, host, port)) {
			t.Errorf("%s: %q", host, message)
		}
	}
	if reached.Load() > 0 {
		t.Errorf("it was reached %d times", reached.Load())
	}
}

// The front proxy's certificate is of one logical cluster: an APIService of
// another that leads to the same server is somebody else there.
func TestAServerOfAnotherLogicalClusterDoesNotBelieveTheControlPlane(t *testing.T) {
	w := shared(t)
	var believed atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		// What an extension server of the victim allows, by the ConfigMap there.
		if req.TLS.PeerCertificates[0].Subject.CommonName != "atoll-front-proxy:victim" {
			http.Error(rw, "", http.StatusUnauthorized)
			return
		}
		believed.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"kind":"APIResourceList","apiVersion":"v1","secret":%q}`, marker)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	handOver(w.evil, t, w.Server, "mine.example.org", "127.0.0.1", port)
	if message := awaitCondition(w.evil, t, w.Server, "mine.example.org", "False"); !strings.Contains(message, "bad status 401") {
		t.Errorf("the message is %q", message)
	}
	if believed.Load() > 0 {
		t.Error("the server believed the control plane in the name of mallory's users")
	}
	handOver(w.victim, t, w.Server, "theirs.example.org", "127.0.0.1", port)
	awaitCondition(w.victim, t, w.Server, "theirs.example.org", "True")
	config, err := w.Kube.CoreV1().ConfigMaps("kube-system").Get(w.victim, "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || config.Data["requestheader-allowed-names"] != `["atoll-front-proxy:victim"]` {
		t.Errorf("the victim's servers allow %q, %v", config.Data["requestheader-allowed-names"], err)
	}
	for _, path := range []string{"/clusters/evil/apis/theirs.example.org/v1", "/clusters/evil/apis/theirs.example.org/v1/things", "/clusters/victim/apis/theirs.example.org/v1/things", "/clusters/evil/openapi/v3/apis/theirs.example.org/v1", "/clusters/evil/apis"} {
		if _, reply := w.raw(t, http.MethodGet, path, malloryToken, ""); leaks(reply) || strings.Contains(reply, "theirs.example.org/v1") && strings.HasPrefix(reply, `{"kind":"API`) {
			t.Errorf("%s shows %s", path, reply)
		}
	}
}
