package attack

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// hook is a tenant's webhook, for pods and ConfigMaps: it answers all with a patch, or not
// before it is let go.
type hook struct {
	*httptest.Server
	patch []byte
	// held is not closed as long as nobody is answered; nil answers at once.
	held chan struct{}
	// asked is how many ask it at a time, most how many ever did.
	asked, most atomic.Int32
}

func startHook(patch string, held chan struct{}) *hook {
	h := &hook{patch: []byte(patch), held: held}
	h.Server = httptest.NewTLSServer(h)
	return h
}

// ServeHTTP implements http.Handler.
func (h *hook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := h.asked.Add(1)
	defer h.asked.Add(-1)
	for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
	}
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(req.Body).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "want an AdmissionReview", http.StatusBadRequest)
		return
	}
	if h.held != nil {
		select {
		case <-h.held:
		case <-req.Context().Done():
		}
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if len(h.patch) > 0 {
		review.Response.Patch, review.Response.PatchType = h.patch, ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

// hookedBy makes a logical cluster as placed does, with a webhook that is called so many times for
// each pod and ConfigMap, and waits until it is.
func (w *World) hookedBy(ctx context.Context, h *hook, times int) (context.Context, error) {
	ctx, err := w.placed(ctx)
	if err != nil {
		return nil, err
	}
	none := admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hook"}}
	for i := range times {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: fmt.Sprintf("hook-%d.example.com", i), SideEffects: &none, TimeoutSeconds: ptr.To[int32](30), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &h.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "pods"}},
			}},
		})
	}
	if _, err := w.admin.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a webhook: %w", err)
	}
	return ctx, nil
}

const plainPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"app-"},"spec":{"serviceAccountName":"default","serviceAccount":"default","automountServiceAccountToken":false,"containers":[{"name":"c","image":"nginx"}]}}`

// askAbout asks the logical cluster, as the hostile syncer, about a pod of an object in a
// namespace.
func (w *World) askAbout(ctx context.Context, namespace, kind, name string, uid types.UID) (*placementv1alpha1.PodReview, error) {
	return w.mallory.atoll.PlacementV1alpha1().PodReviews(namespace).Create(withTarget(ctx), &placementv1alpha1.PodReview{Spec: placementv1alpha1.PodReviewSpec{
		Owner: placementv1alpha1.PodReviewOwner{Group: "apps", Kind: kind, Name: name, UID: uid}, Pod: runtime.RawExtension{Raw: []byte(plainPod)},
	}}, metav1.CreateOptions{})
}

// askAboutApp asks about a pod of the Deployment of placed, until the webhook is known.
func (w *World) askAboutApp(ctx context.Context, h *hook) (review *placementv1alpha1.PodReview, err error) {
	app, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	err = eventually(ctx, "a pod is asked about", func() error {
		if review, err = w.askAbout(ctx, "web", "Deployment", "app", app.UID); err != nil {
			return err
		}
		if h.most.Load() == 0 {
			return errors.New("the webhook is not asked")
		}
		return nil
	})
	return review, err
}
