package aggregation

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/test/framework/server"
)

var (
	apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}

	mu   sync.Mutex
	only *server.Server
)

// shared returns the one server of the package.
func shared(t *testing.T) *server.Server {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if only == nil {
		only = server.StartSharedWith(t, func(o *app.Options) { o.Egress.Deny = []string{"192.0.2.0/24"} })
	}
	return only
}

func TestMain(m *testing.M) {
	code := m.Run()
	if only != nil {
		only.Shutdown()
	}
	os.Exit(code)
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	server.Eventually(t, 60*time.Second, what, check)
}

func create(ctx context.Context, t *testing.T, s *server.Server, gvr schema.GroupVersionResource, obj map[string]any) {
	t.Helper()
	u := &unstructured.Unstructured{Object: obj}
	var err error
	if u.GetNamespace() != "" {
		_, err = s.Dynamic.Resource(gvr).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
	} else {
		_, err = s.Dynamic.Resource(gvr).Create(ctx, u, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatalf("creating %s: %v", u.GetName(), err)
	}
}

// service makes a Service in the namespace default that is at host.
func service(ctx context.Context, t *testing.T, s *server.Server, name, host string) {
	t.Helper()
	create(ctx, t, s, services, map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"type": "ExternalName", "externalName": host},
	})
}

// availability is the condition of an APIService: status, reason, message.
func availability(ctx context.Context, s *server.Server, name string) (status, reason, message string, err error) {
	obj, err := s.Dynamic.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", "", "", err
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Available" {
			status, _ = m["status"].(string)
			reason, _ = m["reason"].(string)
			message, _ = m["message"].(string)
		}
	}
	return status, reason, message, nil
}

func awaitAvailable(ctx context.Context, t *testing.T, s *server.Server, group, wantStatus, wantReason string) (message string) {
	t.Helper()
	eventually(t, fmt.Sprintf("v1.%s is available=%s, %s", group, wantStatus, wantReason), func() error {
		status, reason, text, err := availability(ctx, s, "v1."+group)
		if err != nil {
			return err
		}
		if message = text; status != wantStatus || reason != wantReason {
			return fmt.Errorf("available=%s, %s: %s", status, reason, text)
		}
		return nil
	})
	return message
}

func fruit(e *extension, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": e.group + "/v1", "kind": "Fruit", "metadata": map[string]any{"name": name}}}
}
