package isolation

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// closed starts a server as a user does: what is on this machine is not for tenants.
func closed(t *testing.T) *server.Server {
	t.Helper()
	return server.StartWith(t, func(o *app.Options) { o.Egress.Allow = nil })
}

// locked is a server on this machine that nobody may reach.
func locked(t *testing.T) (url string, reached *atomic.Int32) {
	t.Helper()
	reached = &atomic.Int32{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(s.Close)
	return s.URL, reached
}

const (
	deniedWords = "the control plane does not call "
	waitFor     = 20 * time.Second
)

func TestAWebhookReachesNothingOnTheMachineOfTheServer(t *testing.T) {
	s := closed(t)
	url, reached := locked(t)
	port := url[strings.LastIndex(url, ":"):]
	ctx := s.NewCluster(t, "hooks")
	for i, target := range []string{url, "https://localhost" + port, "https://169.254.169.254/latest", s.URL, "https://[::ffff:127.0.0.1]" + port, "https://127.0.0.1:1"} {
		namespace := fmt.Sprint("n", i)
		if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		none, seconds := admissionregistrationv1.SideEffectClassNone, int32(5)
		hooks := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		if _, err := hooks.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "scan.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &target}, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}},
			}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		refusedWith(t, target, func() error { return tryConfigMap(ctx, s.Kube, namespace) })
	}
	if reached.Load() > 0 {
		t.Errorf("it was reached %d times", reached.Load())
	}
}

func tryConfigMap(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	_, err := kube.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func refusedWith(t *testing.T, target string, try func() error) {
	t.Helper()
	server.Eventually(t, waitFor, target+" is denied", func() error {
		if err := try(); err == nil || !strings.Contains(err.Error(), deniedWords) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

func TestAConversionWebhookReachesNothingOnTheMachineOfTheServer(t *testing.T) {
	s := closed(t)
	url, reached := locked(t)
	ctx := s.NewCluster(t, "conversions")
	read := func(group string) error {
		_, err := s.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "things"}).Get(ctx, "a", metav1.GetOptions{})
		return err
	}
	define(ctx, t, s, "local.example.com", url)
	refusedWith(t, url, func() error { return read("local.example.com") })
	if reached.Load() > 0 {
		t.Errorf("it was reached %d times", reached.Load())
	}
	// Upstream answers this name with the server itself and its own credentials.
	define(ctx, t, s, "api.example.com", "https://kubernetes.default.svc/clusters/root/api/v1/namespaces")
	if err := read("api.example.com"); err == nil || !strings.Contains(err.Error(), "calling kubernetes.default.svc:443: ") {
		t.Errorf("the name of the API server is one like any other: %v", err)
	}
}

// define makes things.<group> with two versions, converted by url, and one object.
func define(ctx context.Context, t *testing.T, s *server.Server, group, url string) {
	t.Helper()
	object := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: object}, {Name: "v2", Served: true, Schema: object}},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{"v1"},
			}},
		},
	}
	definitions := clientset.NewForConfigOrDie(scope.ScopedConfig(s.Config)).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}}}
	if _, err := s.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Create(ctx, thing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
