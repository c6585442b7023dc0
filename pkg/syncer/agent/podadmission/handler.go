package podadmission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// answerTimeout is how long an answer may take: less than the API server waits.
	answerTimeout = (syncer.PodWebhookTimeoutSeconds - 2) * time.Second
	// maxReview bounds a request, in bytes: a pod is stored in less than half of it.
	maxReview = 3 << 20
	// maxOwners bounds how far the object of a user is looked for.
	maxOwners = 4
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// serveHTTP answers who knows the path, see Server.
func (k *Keeper) serveHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithTimeout(req.Context(), answerTimeout)
	defer cancel()
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxReview)).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "want an AdmissionReview of admission.k8s.io/v1", http.StatusBadRequest)
		return
	}
	response := k.answer(ctx, review.Request)
	response.UID = review.Request.UID
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func allowed() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

func refused(code int32, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

// unavailable answers for a control plane that does not.
func (k *Keeper) unavailable(err error) *admissionv1.AdmissionResponse {
	message := "the control plane does not say whether the logical cluster admits the pod: " + err.Error()
	if k.whenUnavailable.Load() == fleetv1alpha1.UnavailableAdmit {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{message}}
	}
	return refused(http.StatusServiceUnavailable, message)
}

// answer says what becomes of a pod:
//
//	the pod is                                             then
//	one of the syncer itself                               as it is: it shows that the syncer is asked
//	not created, or the copy of a pod of a user            as it is: that was admitted above
//	in a namespace about whose pods nothing is to be said  as it is
//	nobody's, or that of somebody else below               as it is
//	made for an object of a user                           as the control plane answers
func (k *Keeper) answer(ctx context.Context, q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	made := &unstructured.Unstructured{}
	if q.Operation != admissionv1.Create || q.SubResource != "" || q.Resource.Resource != pods.Resource || made.UnmarshalJSON(q.Object.Raw) != nil {
		return allowed()
	}
	if syncer.IsProofPod(made, k.secret) {
		k.proofs.Add(1)
		return allowed()
	}
	if _, copied := syncer.MarkOf(pods.GroupResource(), made); copied {
		return allowed()
	}
	kind, ok := k.View.Kinds().ByKind(schema.GroupKind{Kind: "Pod"})
	if !ok || k.silent(q.Namespace) {
		return allowed()
	}
	owner, uid, err := k.owner(ctx, q.Namespace, made)
	switch {
	case err != nil:
		return k.unavailable(err)
	case uid == "":
		return allowed()
	}
	give, err := k.places.take(ctx, owner.Cluster)
	if err != nil {
		return k.unavailable(fmt.Errorf("too many pods are asked about: %w", err))
	}
	defer give()
	above := syncer.PodAbove(kind, made, owner.Namespace, k.View.Owner)
	review, err := k.ask(ctx, owner, uid, above, ptr.Deref(q.DryRun, false))
	switch {
	case isUnavailable(err):
		return k.unavailable(err)
	case err != nil:
		return refused(http.StatusForbidden, err.Error())
	case !review.Status.Allowed:
		return refused(review.Status.Code, review.Status.Message)
	case review.Status.Pod == nil:
		return allowed()
	}
	return k.change(kind, owner, q.Namespace, made, review)
}

// silent says that the logical cluster of a physical namespace has nothing to say about pods.
// One that is not known is asked.
func (k *Keeper) silent(physical string) bool {
	namespace := k.View.NamespaceOf(physical)
	return namespace != nil && namespace.GetAnnotations()[placementv1alpha1.AdmitsPodsAnnotation] != "true"
}

// owner finds the object of a user for which a pod is made; without a UID there is none.
func (k *Keeper) owner(ctx context.Context, namespace string, obj *unstructured.Unstructured) (ref syncer.Ref, uid types.UID, err error) {
	for range maxOwners {
		by := metav1.GetControllerOf(obj)
		if by == nil {
			return ref, "", nil
		}
		gv, err := schema.ParseGroupVersion(by.APIVersion)
		if err != nil {
			return ref, "", nil
		}
		kind, ok := k.View.Kinds().ByKind(schema.GroupKind{Group: gv.Group, Kind: by.Kind})
		if !ok {
			return ref, "", nil
		}
		if obj, err = k.controller(ctx, kind, namespace, by); err != nil {
			return ref, "", err
		}
		if mark, ok := syncer.MarkOf(kind.GroupResource(), obj); ok && mark.ControlPlane == k.View.ControlPlane {
			return syncer.Ref{Kind: kind, Cluster: mark.Cluster, Namespace: mark.Namespace, Name: mark.Name}, mark.UID, nil
		}
	}
	return ref, "", nil
}

// controller is one of a pod or of its controllers. The watch may not have it yet: pods are made
// right after it.
func (k *Keeper) controller(ctx context.Context, kind workload.Kind, namespace string, by *metav1.OwnerReference) (*unstructured.Unstructured, error) {
	if obj, ok := k.View.Physical(kind.GroupVersionResource(), controller.Request{Namespace: namespace, Name: by.Name}); ok && obj.GetUID() == by.UID {
		return obj, nil
	}
	obj, err := k.Down.Dynamic.Resource(kind.GroupVersionResource()).Namespace(namespace).Get(ctx, by.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking for the %s %s that makes it: %w", by.Kind, by.Name, err)
	case obj.GetUID() != by.UID:
		return nil, fmt.Errorf("the %s %s that makes it is another one by now", by.Kind, by.Name)
	}
	return obj, nil
}

func (k *Keeper) ask(ctx context.Context, owner syncer.Ref, uid types.UID, pod *unstructured.Unstructured, dryRun bool) (*placementv1alpha1.PodReview, error) {
	raw, err := pod.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	review := &placementv1alpha1.PodReview{Spec: placementv1alpha1.PodReviewSpec{
		Owner: placementv1alpha1.PodReviewOwner{Group: owner.Kind.Group, Kind: owner.Kind.Kind, Name: owner.Name, UID: uid},
		Pod:   runtime.RawExtension{Raw: raw},
	}}
	options := metav1.CreateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	ctx = scope.WithCluster(ctx, owner.Cluster)
	return k.Up.Atoll.PlacementV1alpha1().PodReviews(owner.Namespace).Create(ctx, review, options)
}

// isUnavailable says that an error is none of the logical cluster's answers.
func isUnavailable(err error) bool {
	if err == nil {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusUnauthorized || code == http.StatusRequestTimeout
}

// change answers with what the logical cluster changed, as far as it may go down.
func (k *Keeper) change(kind workload.Kind, owner syncer.Ref, physical string, made *unstructured.Unstructured, review *placementv1alpha1.PodReview) *admissionv1.AdmissionResponse {
	within, _ := k.View.Namespace(owner.Cluster, owner.Namespace)
	a := syncer.Admission{Pod: kind, Made: made, Before: &unstructured.Unstructured{}, After: &unstructured.Unstructured{},
		Placing: syncer.Placing{Ref: owner, ControlPlane: k.View.ControlPlane, Namespace: physical, Permits: syncer.PermitsIn(within, k.View.Target, k.Permits())}}
	if err := errors.Join(a.Before.UnmarshalJSON(review.Spec.Pod.Raw), a.After.UnmarshalJSON(review.Status.Pod.Raw)); err != nil {
		return k.unavailable(fmt.Errorf("reading the answer: %w", err))
	}
	out, findings, err := a.Admitted()
	if err != nil {
		return refused(http.StatusUnprocessableEntity, err.Error())
	}
	if no := boundary.Refusals(findings); len(no) > 0 {
		return refused(http.StatusForbidden, fmt.Sprintf("the logical cluster admits the pod with something that does not go down to %s: %s", k.View.Target, no[0]))
	}
	patch, err := syncer.PodPatch(made, out)
	if err != nil {
		return refused(http.StatusUnprocessableEntity, err.Error())
	}
	response := allowed()
	if patch != nil {
		response.PatchType, response.Patch = ptr.To(admissionv1.PatchTypeJSONPatch), patch
	}
	for _, f := range findings[:min(len(findings), maxWarnings)] {
		response.Warnings = append(response.Warnings, f.String())
	}
	return response
}

// maxWarnings bounds what one answer says.
const maxWarnings = 10
