package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	psa "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// New makes the plugin; kube takes the logical cluster from the context.
func New(kube kubernetes.Interface, namespaces *controller.Informer[*corev1.Namespace]) (admission.Interface, error) {
	config, err := load.LoadFromReader(nil)
	if err != nil {
		return nil, fmt.Errorf("loading the default configuration: %w", err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("making the checks: %w", err)
	}
	source := source{kube: kube, namespaces: namespaces}
	check := &psa.Admission{
		Configuration: config, Evaluator: evaluator, Metrics: recorder(),
		PodSpecExtractor: psa.DefaultPodSpecExtractor{}, NamespaceGetter: source, PodLister: source,
	}
	if err := check.CompleteConfiguration(); err != nil {
		return nil, fmt.Errorf("completing the configuration: %w", err)
	}
	if err := check.ValidateConfiguration(); err != nil {
		return nil, fmt.Errorf("checking the configuration: %w", err)
	}
	return &plugin{Handler: admission.NewHandler(admission.Create, admission.Update), check: check}, nil
}

// recorder is one for the process: metrics can be registered once.
var recorder = sync.OnceValue(func() metrics.Recorder {
	r := metrics.NewPrometheusRecorder(psaapi.GetAPIVersion())
	r.MustRegister(legacyregistry.MustRegister)
	return r
})

type plugin struct {
	*admission.Handler
	check *psa.Admission
}

var _ admission.ValidationInterface = &plugin{}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	if resource != corev1.Resource("namespaces") && !p.check.PodSpecExtractor.HasPodSpec(resource) {
		return nil
	}
	r := p.check.Validate(ctx, &attributes{Attributes: a})
	for _, w := range r.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for key, value := range r.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, psaapi.AuditAnnotationPrefix+key, value)
	}
	if r.Allowed {
		return nil
	}
	return refusal(a, r.Result)
}

// refusal is a 403 with what result says about it.
func refusal(a admission.Attributes, result *metav1.Status) error {
	err := admission.NewForbidden(a, errors.New("not allowed by PodSecurity"))
	var status *apierrors.StatusError
	if result == nil || !errors.As(err, &status) {
		return err
	}
	if result.Message != "" {
		status.ErrStatus.Message = result.Message
	}
	if result.Reason != "" {
		status.ErrStatus.Reason = result.Reason
	}
	if result.Details != nil {
		status.ErrStatus.Details = result.Details
	}
	if result.Code != 0 {
		status.ErrStatus.Code = result.Code
	}
	return status
}

// source reads for the logical cluster of the context.
type source struct {
	kube       kubernetes.Interface
	namespaces *controller.Informer[*corev1.Namespace]
}

// GetNamespace implements psa.NamespaceGetter.
func (s source) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, scope.ErrNoCluster
	}
	if namespace, ok := s.namespaces.Get(controller.Request{Cluster: c, Name: name}); ok {
		return namespace, nil
	}
	return s.kube.CoreV1().Namespaces().Get(scope.With(ctx, scope.Scope{Cluster: c}), name, metav1.GetOptions{})
}

// ListPods implements psa.PodLister.
func (s source) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, scope.ErrNoCluster
	}
	list, err := s.kube.CoreV1().Pods(namespace).List(scope.With(ctx, scope.Scope{Cluster: c}), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}
