package syncer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: PodWebhookName(w.ControlPlane), Labels: ours},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
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
		}},
	}
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

// AdmissionCondition says whether pods are admitted by their logical cluster.
//
//	wanted  problem  physical cluster   is
//	no      any      any                False, NotOffered
//	yes     any      does not answer    Unknown, with its reason
//	yes     some     answers            False, NotServed or NotConfigured
//	yes     none     answers            True
func AdmissionCondition(wanted bool, problem error, failure *Failure, generation int64) metav1.Condition {
	c := metav1.Condition{Type: fleetv1alpha1.ConditionPodsAdmitted, ObservedGeneration: generation, Status: metav1.ConditionFalse}
	switch {
	case !wanted:
		c.Reason, c.Message = "NotOffered", ErrAdmissionNotOffered.Error()
	case failure != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, failure.Reason, "the physical cluster does not say whether its API server asks"
	case errors.Is(problem, ErrAdmissionNotServed):
		c.Reason, c.Message = "NotServed", problem.Error()
	case problem != nil:
		c.Reason, c.Message = "NotConfigured", bounded(problem.Error())
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Asked", "the API server of the physical cluster asks about pods where a logical cluster has something to say"
	}
	return c
}
