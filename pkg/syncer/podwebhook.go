package syncer

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// PodWebhookTimeoutSeconds is how long the API server of a physical cluster waits for an
// answer about a pod: the control plane asks webhooks in turn.
const PodWebhookTimeoutSeconds = 15

// PodWebhook is the way in which the API server of a physical cluster asks its syncer about pods.
type PodWebhook struct {
	ControlPlane string
	Admission    fleetv1alpha1.PodAdmission
	// Path is where the syncer answers; who does not know it is not answered.
	Path string
	// CA is the certificate of the syncer, as PEM.
	CA []byte
}

// PodWebhookName is the name of the configuration of a control plane. Webhooks are called by
// the order of these names: what those of the physical cluster put into pods comes later, and is
// neither shown to tenants nor for them to take out.
func PodWebhookName(controlPlane string) string { return "0-atoll-pods-" + controlPlane }

// Configuration is the one that is wanted, with everything set that has a default: it is
// compared with the one that is there.
func (w PodWebhook) Configuration() *admissionregistrationv1.MutatingWebhookConfiguration {
	client := admissionregistrationv1.WebhookClientConfig{CABundle: w.CA}
	if s := w.Admission.Service; s != nil {
		port := s.Port
		if port == 0 {
			port = 443
		}
		client.Service = &admissionregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: &w.Path, Port: &port}
	} else {
		client.URL = ptr.To(w.Admission.URL + w.Path)
	}
	failure := admissionregistrationv1.Fail
	if w.Admission.WhenUnavailable == fleetv1alpha1.UnavailableAdmit {
		failure = admissionregistrationv1.Ignore
	}
	ours := map[string]string{placementv1alpha1.ManagedByLabel: w.ControlPlane}
	webhook := admissionregistrationv1.MutatingWebhook{
		Name: "pods.atoll.dev", ClientConfig: client,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: ptr.To(admissionregistrationv1.NamespacedScope)},
		}},
		FailurePolicy: &failure, MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			placementv1alpha1.ManagedByLabel: w.ControlPlane, placementv1alpha1.AdmitsPodsLabel: "true",
		}},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: ours},
		SideEffects:    ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), TimeoutSeconds: ptr.To[int32](PodWebhookTimeoutSeconds),
		AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
	}
	// The same way, in whatever namespace, for pods that nobody else makes: see ProofPod.
	proof := *webhook.DeepCopy()
	proof.Name, proof.FailurePolicy, proof.TimeoutSeconds = "proof.pods.atoll.dev", ptr.To(admissionregistrationv1.Fail), ptr.To[int32](proofTimeoutSeconds)
	proof.NamespaceSelector = &metav1.LabelSelector{}
	proof.ObjectSelector = &metav1.LabelSelector{MatchLabels: proofLabels(w.ControlPlane)}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: PodWebhookName(w.ControlPlane), Labels: ours},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{webhook, proof},
	}
}

const (
	// proofLabel is on the pods by which a syncer finds out whether it is asked; none is ever stored.
	proofLabel = "atoll.dev/proves-admission"
	// proofTimeoutSeconds bounds the question about one.
	proofTimeoutSeconds = 5
)

func proofLabels(controlPlane string) map[string]string {
	return map[string]string{placementv1alpha1.ManagedByLabel: controlPlane, proofLabel: "true"}
}

// ProofPod is a pod about which the API server of a physical cluster asks the syncer if it asks about
// any. It is for a dry run. The secret is what only the syncer knows.
func ProofPod(controlPlane, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "atoll-proof-", Labels: proofLabels(controlPlane), Annotations: map[string]string{proofLabel: secret}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none.invalid/none"}}},
	}
}

// IsProofPod says whether a pod is that of somebody who knows the secret.
func IsProofPod(pod metav1.Object, secret string) bool {
	return pod.GetLabels()[proofLabel] != "" && subtle.ConstantTimeCompare([]byte(pod.GetAnnotations()[proofLabel]), []byte(secret)) == 1
}

// PodPatch is the JSON patch from a pod to an admitted one; nil if nothing is changed.
func PodPatch(made, admitted *unstructured.Unstructured) ([]byte, error) {
	var patch []map[string]any
	replace := func(from, to any, path string) {
		if to != nil && !reflect.DeepEqual(from, to) {
			patch = append(patch, map[string]any{"op": "add", "path": path, "value": to})
		}
	}
	before, after := field(made.Object, "metadata"), field(admitted.Object, "metadata")
	for _, name := range []string{"labels", "annotations"} {
		replace(before[name], after[name], "/metadata/"+name)
	}
	replace(made.Object["spec"], admitted.Object["spec"], "/spec")
	if patch == nil {
		return nil, nil
	}
	content, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of a pod: %w", err)
	}
	return content, nil
}

// Why pods are not admitted by their logical cluster.
var (
	ErrAdmissionNotOffered = errors.New("webhooks and policies of logical clusters are not asked about pods that controllers make: set spec.pods.admission, and have the syncer serve")
	ErrAdmissionNotServed  = errors.New("the syncer serves no webhook: give it --admission-address; that of a push physical cluster is in the server")
)

// NotAsked says that the API server of a physical cluster made a pod without asking the syncer, or
// could not ask it.
type NotAsked struct{ Err error }

// Error implements error.
func (e NotAsked) Error() string {
	if e.Err == nil {
		return "its API server did not ask about a pod, though it is configured to"
	}
	return "its API server could not ask about a pod: " + e.Err.Error()
}

// NotProven says that nobody can tell whether it asks.
type NotProven struct{ Err error }

// Error implements error.
func (e NotProven) Error() string {
	return "whether its API server asks is not known, as it refused the pod that was to show it: " + e.Err.Error()
}

// Proven is what the dry run of a ProofPod shows: err is how it ended, asked whether the syncer was asked about
// it.
//
//	asked  the dry run                                     shows
//	yes    any                                             that it asks
//	no     ended well                                      NotAsked
//	no     failed, as the webhook could not be called      NotAsked, with the reason
//	no     was refused otherwise, before it came to that   NotProven
func Proven(asked bool, err error) error {
	switch {
	case asked:
		return nil
	case err == nil || strings.Contains(err.Error(), "failed calling webhook"):
		return NotAsked{err}
	}
	return NotProven{err}
}

// AdmissionCondition says whether pods are admitted by their logical cluster.
//
//	wanted  problem              physical cluster   is
//	no      any                  any                False, NotOffered
//	yes     any                  does not answer    Unknown, with its reason
//	yes     nobody can tell      answers            Unknown, NotProven
//	yes     some other           answers            False, NotServed, NotConfigured or NotAsked
//	yes     none                 answers            True
func AdmissionCondition(wanted bool, problem error, failure *Failure, generation int64) metav1.Condition {
	c := metav1.Condition{Type: fleetv1alpha1.ConditionPodsAdmitted, ObservedGeneration: generation, Status: metav1.ConditionFalse}
	switch {
	case !wanted:
		c.Reason, c.Message = "NotOffered", ErrAdmissionNotOffered.Error()
	case failure != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, failure.Reason, "the physical cluster does not say whether its API server asks"
	case errors.Is(problem, ErrAdmissionNotServed):
		c.Reason, c.Message = "NotServed", problem.Error()
	case errors.As(problem, &NotProven{}):
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NotProven", bounded(problem.Error())
	case errors.As(problem, &NotAsked{}):
		c.Reason, c.Message = "NotAsked", bounded(problem.Error())
	case problem != nil:
		c.Reason, c.Message = "NotConfigured", bounded(problem.Error())
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Asked", "the API server of the physical cluster asks about pods where a logical cluster has something to say: it asked about one that was to show it"
	}
	return c
}
