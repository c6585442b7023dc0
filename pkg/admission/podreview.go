package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	accounts "k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"

	"github.com/atoll-dev/atoll/pkg/admission/podrules"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ofPods are the steps that admit pods which controllers make on physical clusters. Left out
// are those that the physical cluster has done by what it has itself (tolerations, its classes
// of priority and runtime), and ResourceQuota: it would charge for what is not stored here, and
// those that can be enforced are copies below.
var ofPods = []string{
	limitranger.PluginName, accounts.PluginName, podSecurityName,
	mutatingpolicy.PluginName, mutatingwebhook.PluginName, validatingpolicy.PluginName, validatingwebhook.PluginName,
}

func stepsOfPods(steps []step) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !slices.Contains(ofPods, s.name) })
}

// errOnlySyncersAsk is for everybody else.
var errOnlySyncersAsk = errors.New("only the syncer of a physical cluster asks about the pods that are made there")

const (
	// maxRefusal bounds the sentence of a refusal, in bytes.
	maxRefusal = 2048
	// maxAdmittedPod bounds a pod as it was admitted, in bytes: what is made of it is to be
	// stored, and no API server stores more. Here nothing is stored, which would say so.
	maxAdmittedPod = 3 << 19
)

// reviewPod answers a PodReview: it admits the pod as if it were made in the namespace.
//
//	asks                                                      is answered
//	anybody but a syncer                                      403
//	a syncer, in a namespace that is not placed there         404, as if there were none (guardPlace)
//	a syncer, for an object that has no copy there, or        403
//	which is another one by now
//	a syncer, for one that a user made and that has           what admission says of the pod
//
// What is in the pod the physical cluster says: it may show webhooks and policies of a namespace
// that is placed there any pod, and learns what they say of it. It has these pods anyway.
func (c *Chain) reviewPod(ctx context.Context, r *request) error {
	review, ok := r.GetObject().(*placementv1alpha1.PodReview)
	if !ok || r.GetOperation() != admission.Create || r.syncer == "" {
		return admission.NewForbidden(r.Attributes, errOnlySyncersAsk)
	}
	kind, err := c.own.ownerRuns(ctx, r, review.Spec.Owner)
	if err != nil {
		return err
	}
	pod, err := readPod(review.Spec.Pod.Raw, r.GetNamespace())
	if err != nil {
		return apierrors.NewInvalid(placementv1alpha1.SchemeGroupVersion.WithKind("PodReview").GroupKind(), review.Name,
			field.ErrorList{field.Invalid(field.NewPath("spec", "pod"), "", err.Error())})
	}
	before, err := writePod(pod)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	review.Spec.Pod, review.Status = runtime.RawExtension{Raw: before}, placementv1alpha1.PodReviewStatus{}
	ctx = at(ctx, r.cluster)
	a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, r.IsDryRun(), controllerOf(kind))
	if err := c.admitPod(ctx, a); err != nil {
		review.Status = refusedPod(err)
		return nil
	}
	after, err := writePod(pod)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	switch {
	case bytes.Equal(before, after):
		review.Status.Allowed = true
	case len(after) > maxAdmittedPod:
		review.Status = placementv1alpha1.PodReviewStatus{Code: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("webhooks and policies make a pod of %d bytes of it, more than the %d that can be stored: have them add less", len(after), maxAdmittedPod)}
	default:
		review.Status.Allowed, review.Status.Pod = true, &runtime.RawExtension{Raw: after}
	}
	return nil
}

// noteAdmitsPods stamps a new Namespace, before anything is in it; later changes are for
// pkg/controllers/podadmission.
func (c *Chain) noteAdmitsPods(r *request) {
	i := c.informers
	if !r.isNamespace() || r.GetOperation() != admission.Create || r.obj == nil || i.MutatingWebhooks == nil {
		return
	}
	stamp.AdmitsPods(r.obj, i.PodRules(r.cluster).In(r.obj.GetLabels()))
}

// PodRules are the rules about pods of a logical cluster, as far as they are known.
func (i Informers) PodRules(cluster logicalcluster.Name) podrules.Pods {
	return podrules.Of(podrules.Rules{
		MutatingWebhooks: i.MutatingWebhooks.ListCluster(cluster), ValidatingWebhooks: i.ValidatingWebhooks.ListCluster(cluster),
		MutatingPolicies: i.MutatingPolicies.ListCluster(cluster), MutatingBindings: i.MutatingBindings.ListCluster(cluster),
		ValidatingPolicies: i.ValidatingPolicies.ListCluster(cluster), ValidatingBindings: i.ValidatingBindings.ListCluster(cluster),
	})
}

func (c *Chain) admitPod(ctx context.Context, a admission.Attributes) error {
	interfaces := admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	if err := c.mutate(ctx, stepsOfPods(c.mutating), a, interfaces); err != nil {
		return err
	}
	return validate(ctx, stepsOfPods(c.validating), a, interfaces)
}

// ownerRuns finds the kind of the object for which a pod is made, if that has a copy on the
// physical cluster of the syncer.
func (p *plugin) ownerRuns(ctx context.Context, r *request, owner placementv1alpha1.PodReviewOwner) (workload.Kind, error) {
	refused := admission.NewForbidden(r.Attributes, fmt.Errorf("no %s %s with this UID has a copy on %s", owner.Kind, owner.Name, r.syncer))
	kind, ok := r.kinds.ByKind(schema.GroupKind{Group: owner.Group, Kind: owner.Kind})
	if !ok || !kind.Copied() || kind.IsPod() || kind.Role == workload.Container || owner.Name == "" || owner.UID == "" {
		return kind, refused
	}
	obj, err := p.lookup.dynamic.Resource(kind.GroupVersionResource()).Namespace(r.GetNamespace()).Get(at(ctx, r.cluster), owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return kind, refused
	case err != nil:
		return kind, apierrors.NewInternalError(fmt.Errorf("reading the owner of a pod: %w", err))
	case obj.GetUID() != owner.UID || !stamp.RunsOn(obj, r.syncer):
		return kind, refused
	}
	return kind, nil
}

// controllerOf is who makes the pods of a kind in a cluster of Kubernetes.
func controllerOf(kind workload.Kind) user.Info {
	names := map[string]string{"Deployment": "replicaset-controller", "ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller",
		"DaemonSet": "daemon-set-controller", "Job": "job-controller", "CronJob": "job-controller", "ReplicationController": "replication-controller"}
	name, ok := names[kind.Kind]
	if !ok {
		name = "generic-garbage-collector" // nobody: a role for pods it has not
	}
	return &user.DefaultInfo{
		Name:   serviceaccount.MakeUsername(metav1.NamespaceSystem, name),
		Groups: append(serviceaccount.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated),
	}
}

// readPod is the pod of a review as admission sees it: with defaults, and as nobody has stored it.
func readPod(raw []byte, namespace string) (*core.Pod, error) {
	var v1 corev1.Pod
	if err := json.Unmarshal(raw, &v1); err != nil {
		return nil, err
	}
	if v1.APIVersion != "v1" || v1.Kind != "Pod" {
		return nil, errors.New("want a v1 Pod")
	}
	legacyscheme.Scheme.Default(&v1)
	pod := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(&v1, pod, nil); err != nil {
		return nil, err
	}
	pod.Namespace, pod.UID, pod.ResourceVersion, pod.ManagedFields, pod.Status = namespace, "", "", nil, core.PodStatus{}
	return pod, nil
}

func writePod(pod *core.Pod) ([]byte, error) {
	var v1 corev1.Pod
	if err := legacyscheme.Scheme.Convert(pod, &v1, nil); err != nil {
		return nil, fmt.Errorf("converting a pod: %w", err)
	}
	v1.APIVersion, v1.Kind = "v1", "Pod"
	return json.Marshal(v1)
}

func refusedPod(err error) placementv1alpha1.PodReviewStatus {
	refused := placementv1alpha1.PodReviewStatus{Message: err.Error(), Code: 403}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		refused.Code = status.Status().Code
	}
	refused.Message = refused.Message[:min(len(refused.Message), maxRefusal)]
	return refused
}
