package attack

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// mostRead is what the server may take of one answer that does not end: its bounds, and
// what the sockets between hold.
const mostRead = 32 << 20

// hostile is a server that answers without end, and one that it redirects to.
type hostile struct {
	*httptest.Server
	inside *httptest.Server
	// longest is how many bytes of one answer were taken, asked how many requests came,
	// followed how many came to where it redirects.
	longest, asked, followed atomic.Int64
	// redirects says that it does that instead.
	redirects bool
	// decent answers what is not hostile, if it wants to.
	decent func(http.ResponseWriter, *http.Request) bool
}

func startHostile(redirects bool, decent func(http.ResponseWriter, *http.Request) bool) *hostile {
	h := &hostile{redirects: redirects, decent: decent}
	h.inside = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { h.followed.Add(1) }))
	h.Server = httptest.NewTLSServer(h)
	return h
}

func (h *hostile) close() {
	h.CloseClientConnections()
	h.Close()
	h.inside.Close()
}

// ServeHTTP implements http.Handler.
func (h *hostile) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h.decent != nil && h.decent(w, req) {
		return
	}
	h.asked.Add(1)
	_, _ = io.Copy(io.Discard, req.Body)
	if h.redirects {
		http.Redirect(w, req, h.inside.URL, http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"`))
	withoutEnd(w, &h.longest)
}

// withoutEnd writes until nobody takes more, and notes the most of what was taken at once.
func withoutEnd(to io.Writer, longest *atomic.Int64) {
	part := bytes.Repeat([]byte("x"), 64<<10)
	for sent := int64(0); sent < 1<<30; {
		n, err := to.Write(part)
		sent += int64(n)
		for most := longest.Load(); sent > most && !longest.CompareAndSwap(most, sent); most = longest.Load() {
		}
		if err != nil {
			return
		}
	}
}

func (h *hostile) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
}

// harmless fails if more was taken than may be, or a redirect was followed.
func (h *hostile) harmless() error {
	switch {
	case h.asked.Load() == 0:
		return errors.New("nobody asked the hostile server")
	case h.longest.Load() > mostRead:
		return fmt.Errorf("%d bytes of one answer were read", h.longest.Load())
	case h.followed.Load() > 0:
		return errors.New("a redirect was followed")
	}
	return nil
}

// bites shows what somebody without bounds does to himself.
func bites(ctx context.Context, _ *World) error {
	h := startHostile(false, nil)
	defer h.close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	resp, err := h.Client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if n, err := io.CopyN(io.Discard, resp.Body, 2*mostRead); err != nil {
		return fmt.Errorf("the answer ended after %d bytes: %w", n, err)
	}
	return nil
}

// follows shows that who follows redirects gets there.
func follows(ctx context.Context, _ *World) error {
	h := startHostile(true, nil)
	defer h.close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	resp, err := h.Client().Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if h.followed.Load() == 0 {
		return errors.New("the redirect led nowhere")
	}
	return nil
}

func webhookOf(h *hostile) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return webhookAt(h.URL, h.ca())
}

func webhookAt(address string, ca []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", SideEffects: &none, TimeoutSeconds: ptr.To[int32](20), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}

// webhooked has a hostile webhook asked some times.
func webhooked(ctx context.Context, w *World, redirects bool) error {
	h := startHostile(redirects, nil)
	defer h.close()
	ctx, err := w.cluster(ctx)
	if err != nil {
		return err
	}
	if _, err := w.admin.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, webhookOf(h), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a webhook: %w", err)
	}
	if err := eventually(ctx, "the webhook is asked", func() error {
		_, err := w.admin.kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if h.asked.Load() < 3 {
			return fmt.Errorf("asked %d times: %w", h.asked.Load(), err)
		}
		if err == nil {
			return errors.New("it was believed")
		}
		return nil
	}); err != nil {
		return err
	}
	return h.harmless()
}

var endlessWebhook = Attack{
	Name:    "an admission webhook that answers without end does not grow the server",
	Fence:   func(ctx context.Context, w *World) error { return webhooked(ctx, w, false) },
	Control: bites,
}

var redirectingWebhook = Attack{
	Name:    "an admission webhook that redirects is not followed",
	Fence:   func(ctx context.Context, w *World) error { return webhooked(ctx, w, true) },
	Control: follows,
}

var endlessConversion = Attack{
	Name: "a conversion webhook that answers without end does not grow the server",
	Fence: func(ctx context.Context, w *World) error {
		h := startHostile(false, nil)
		defer h.close()
		ctx, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		things, err := w.convertedBy(ctx, h)
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := things.Get(ctx, "a", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "too large") {
				return fmt.Errorf("got %w", err)
			}
		}
		return h.harmless()
	},
	Control: bites,
}

// convertedBy defines things, makes one of version v1, and returns those of version v2.
func (w *World) convertedBy(ctx context.Context, h *hostile) (dynamic.ResourceInterface, error) {
	object := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	config := scope.ScopedConfig(w.Config)
	if _, err := clientset.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: object}, {Name: "v2", Served: true, Schema: object}},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &h.URL, CABundle: h.ca()}, ConversionReviewVersions: []string{"v1"},
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("defining things: %w", err)
	}
	client := dynamic.NewForConfigOrDie(config)
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}}}
	err := eventually(ctx, "making a thing", func() error {
		_, err := client.Resource(gvr).Create(ctx, thing, metav1.CreateOptions{})
		return err
	})
	gvr.Version = "v2"
	return client.Resource(gvr), err
}

const aggregatedPath = "/apis/aggregated.example.com/v1"

var endlessAggregated = Attack{
	Name: "an aggregated server that answers without end does not grow the server, and is cut off in time",
	Fence: func(ctx context.Context, w *World) error {
		var decent atomic.Bool
		h := startHostile(false, func(rw http.ResponseWriter, req *http.Request) bool {
			if !decent.Load() || strings.HasPrefix(req.URL.Path, aggregatedPath+"/things") {
				return false
			}
			_, _ = rw.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"aggregated.example.com/v1","resources":[{"name":"things","kind":"Thing","verbs":["list"]}]}`))
			return true
		})
		defer h.close()
		ctx, err := w.aggregated(ctx, h)
		if err != nil {
			return err
		}
		if err := eventually(ctx, "it is asked what it serves", func() error {
			if n := h.asked.Load(); n < 3 {
				return fmt.Errorf("asked %d times", n)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := h.harmless(); err != nil {
			return err
		}
		decent.Store(true)
		shop, _ := scope.ClusterFrom(ctx)
		path := scope.Scope{Cluster: shop}.Path() + aggregatedPath + "/things?timeout=2s"
		return eventually(ctx, "it is asked for things", func() error {
			began := time.Now()
			got, err := drain(ctx, w.admin.config, path)
			switch {
			case got < 1<<20:
				return fmt.Errorf("%d bytes: %w", got, err)
			case time.Since(began) > 30*time.Second:
				return fmt.Errorf("it was cut off after %s", time.Since(began))
			}
			return nil
		})
	},
	Control: bites,
}

// drain reads an answer to its end and says how long it was.
func drain(ctx context.Context, config *rest.Config, path string) (int64, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(io.Discard, resp.Body)
}

// aggregated registers a server for a group.
func (w *World) aggregated(ctx context.Context, h *hostile) (context.Context, error) {
	ctx, err := w.cluster(ctx)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil, err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "aggregated"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(port)}},
	}}
	if _, err := w.admin.kube.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a Service: %w", err)
	}
	client, err := v1.NewForConfig(scope.ScopedConfig(w.Config))
	if err != nil {
		return nil, err
	}
	_, err = client.APIServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.aggregated.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "aggregated.example.com", Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "aggregated", Port: ptr.To(int32(port))},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("registering a server: %w", err)
	}
	return ctx, nil
}

var redirectingPhysicalCluster = Attack{
	Name:    "a physical cluster that redirects the server's syncer is not followed",
	Fence:   func(ctx context.Context, w *World) error { return w.pushed(ctx, true) },
	Control: follows,
}

// pushed registers a hostile server as a physical cluster that the server connects to.
func (w *World) pushed(ctx context.Context, redirects bool) error {
	h := startHostile(redirects, nil)
	defer h.close()
	unregister, err := w.connect(ctx, "hostile", h.URL, h.ca(), nil)
	if err != nil {
		return err
	}
	defer unregister()
	if err := eventually(ctx, "it is asked", func() error {
		if n := h.asked.Load(); n < 3 {
			return fmt.Errorf("asked %d times", n)
		}
		return nil
	}); err != nil {
		return err
	}
	return h.harmless()
}

// connect registers a physical cluster that the server connects to.
func (w *World) connect(ctx context.Context, name, url string, ca []byte, bounds corev1.ResourceList) (unregister func(), err error) {
	root := scope.WithCluster(ctx, scope.Root)
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name, Contexts: map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters:  map[string]*clientcmdapi.Cluster{name: {Server: url, CertificateAuthorityData: ca}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: "a"}},
	})
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{fleetv1alpha1.KubeconfigKey: kubeconfig}}
	if _, err := w.admin.kube.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Create(root, secret, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a Secret: %w", err)
	}
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fleetv1alpha1.PhysicalClusterSpec{
		Connection: fleetv1alpha1.Connection{
			Type: fleetv1alpha1.ConnectionPush, KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Namespace: fleetv1alpha1.LeaseNamespace, Name: name},
		},
		Bounds: bounds,
	}}
	if _, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Create(root, pc, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("registering %s: %w", name, err)
	}
	return func() {
		_ = w.admin.atoll.FleetV1alpha1().PhysicalClusters().Delete(context.WithoutCancel(root), name, metav1.DeleteOptions{})
	}, nil
}
