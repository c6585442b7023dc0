package admission

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func contains(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), words)
}

// hook is a webhook that records what it is asked.
type hook struct {
	*httptest.Server
	answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

	mu    sync.Mutex
	asked []string
}

func startHook(t *testing.T, answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *hook {
	t.Helper()
	h := &hook{answer: answer}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(req.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.asked = append(h.asked, fmt.Sprintf("%s %s %s", review.Request.Operation, review.Request.Resource.Resource, review.Request.Name))
	if auth := req.Header.Get("Authorization"); auth != "" {
		h.asked = append(h.asked, "with credentials")
	}
	h.mu.Unlock()
	review.Response = h.answer(review.Request)
	review.Response.UID = review.Request.UID
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (h *hook) saw(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.asked {
		if strings.Contains(line, what) {
			return true
		}
	}
	return false
}

func (h *hook) client() admissionregistrationv1.WebhookClientConfig {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	return admissionregistrationv1.WebhookClientConfig{URL: &h.URL, CABundle: ca}
}

func allow(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

func deny(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not on my watch"}}
}

var everything = []admissionregistrationv1.RuleWithOperations{{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
}}

func configMaps() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
}

func validatingWebhook(t *testing.T, s *server.Server, ctx context.Context, client admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) {
	t.Helper()
	none, seconds := admissionregistrationv1.SideEffectClassNone, int32(2)
	_, err := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", ClientConfig: client, Rules: rules, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func mutatingWebhook(t *testing.T, s *server.Server, ctx context.Context, client admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) {
	t.Helper()
	none, seconds := admissionregistrationv1.SideEffectClassNone, int32(2)
	_, err := s.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "hook.example.com", ClientConfig: client, Rules: rules, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAValidatingWebhookIsAskedAboutItsLogicalClusterOnlyAndUntilItGoes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "webhook")
	h := startHook(t, deny)
	validatingWebhook(t, s, own, h.client(), configMaps())
	var denied error
	eventually(t, "the webhook is asked", func() error {
		if denied = tryConfigMap(s, own, "a"); denied == nil {
			return fmt.Errorf("it was accepted")
		}
		return nil
	})
	if !contains(denied, `admission webhook "hook.example.com" denied the request: not on my watch`) {
		t.Errorf("got %v", denied)
	}
	if err := tryConfigMap(s, other, "b"); err != nil {
		t.Errorf("in another logical cluster: %v", err)
	}
	if h.saw("b") || h.saw("credentials") {
		t.Errorf("the webhook saw too much: %v", h.asked)
	}
	if err := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(own, "hooks", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the webhook is asked no more", func() error { return tryConfigMap(s, own, "a") })
}

func TestAMutatingWebhookChangesObjectsButNotOurMetadata(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "webhook-mutating")
	patch := `[{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}},
		{"op":"add","path":"/metadata/annotations","value":{"kcp.io/cluster":"webhook-mutating-other","` + placementv1alpha1.TargetsAnnotation + `":"{\"east\":{}}"}},
		{"op":"add","path":"/metadata/finalizers","value":["` + placementv1alpha1.CopiesFinalizer + `"]}]`
	h := startHook(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &jsonPatch}
	})
	mutatingWebhook(t, s, own, h.client(), configMaps())
	eventually(t, "the webhook changes objects", func() error {
		c, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, configMap("a"), metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return err
		}
		if c.Labels["seen"] != "yes" {
			return fmt.Errorf("labels %v", c.Labels)
		}
		if c.Annotations["kcp.io/cluster"] != "webhook-mutating" || c.Annotations[placementv1alpha1.TargetsAnnotation] != "" || len(c.Finalizers) != 0 {
			t.Errorf("the webhook changed metadata of the system: %v %v", c.Annotations, c.Finalizers)
		}
		return nil
	})
	c, err := s.Kube.CoreV1().ConfigMaps("web").Create(other, configMap("a"), metav1.CreateOptions{DryRun: []string{"All"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Labels) != 0 {
		t.Errorf("the webhook changed an object of another logical cluster: %v", c.Labels)
	}
}

func TestWebhooksThatRefuseEverythingDoNotHoldTheLogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "hostage")
	if _, err := s.Kube.CoreV1().ConfigMaps("web").Create(own, configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	nowhere := "https://127.0.0.1:1"
	validatingWebhook(t, s, own, admissionregistrationv1.WebhookClientConfig{URL: &nowhere}, everything)
	mutatingWebhook(t, s, own, startHook(t, deny).client(), everything)
	eventually(t, "everything is refused", func() error {
		if tryConfigMap(s, own, "b") == nil {
			return fmt.Errorf("it was accepted")
		}
		return nil
	})
	root := scope.WithCluster(t.Context(), scope.Root)
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, "hostage", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the logical cluster is gone", func() error {
		_, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(root, "hostage", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%v)", err)
	})
}

func TestAWebhookThatNamesAServiceWithoutAnAddressSaysSo(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "webhook-service")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	if _, err := s.Kube.CoreV1().Services("web").Create(own, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	validatingWebhook(t, s, own, admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "web", Name: "hook"}}, configMaps())
	eventually(t, "the refusal says why", func() error {
		err := tryConfigMap(s, own, "a")
		if !contains(err, "service web/hook has no address that the control plane could call") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

func TestAWebhookThatNamesAServiceWithAnAddressIsCalledThere(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "webhook-address")
	h := startHook(t, deny)
	host := strings.TrimPrefix(h.URL, "https://")
	name, port, _ := strings.Cut(host, ":")
	var number int32
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: number}}}}
	if _, err := s.Kube.CoreV1().Services("web").Create(own, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: name}}
	eventually(t, "the service has an address", func() error {
		current, err := s.Kube.CoreV1().Services("web").Get(own, "hook", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Status = service.Status
		_, err = s.Kube.CoreV1().Services("web").UpdateStatus(own, current, metav1.UpdateOptions{})
		return err
	})
	client := h.client()
	client.URL, client.Service = nil, &admissionregistrationv1.ServiceReference{Namespace: "web", Name: "hook", Port: &number}
	validatingWebhook(t, s, own, client, configMaps())
	// The certificate is for another name: it is reached, and not trusted.
	eventually(t, "the webhook is called", func() error {
		err := tryConfigMap(s, own, "a")
		if !contains(err, "hook.web.svc") || !contains(err, "certificate") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

func TestAWebhookIsAskedAboutSubresources(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "webhook-sub")
	createPod(t, s, own, pod("p"))
	h := startHook(t, allow)
	validatingWebhook(t, s, own, h.client(), everything)
	eventually(t, "the webhook sees a status and a token", func() error {
		p, err := s.Kube.CoreV1().Pods("web").Get(own, "p", metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Status.Message = time.Now().String()
		if _, err := s.Kube.CoreV1().Pods("web").UpdateStatus(own, p, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if _, err := s.Kube.CoreV1().ServiceAccounts("web").CreateToken(own, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if !h.saw("UPDATE pods p") || !h.saw("CREATE serviceaccounts default") {
			return fmt.Errorf("it saw %v", h.asked)
		}
		return nil
	})
}
