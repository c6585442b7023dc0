package stock

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	systemclasses "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// systemPriority knows the two priority classes that every Kubernetes cluster
// has: they are not stored, and the informer of the stock plugin knows what is.
type systemPriority struct {
	admission.Interface // the stock plugin
	classes             *controller.Informer[*schedulingv1.PriorityClass]
}

var (
	_ admission.MutationInterface   = systemPriority{}
	_ admission.ValidationInterface = systemPriority{}
)

// WithSystemPriorities wraps the stock plugin Priority.
func WithSystemPriorities(stock admission.Interface, classes *controller.Informer[*schedulingv1.PriorityClass]) admission.Interface {
	return systemPriority{Interface: stock, classes: classes}
}

// Admit implements admission.MutationInterface.
func (s systemPriority) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*api.Pod)
	if ok && a.GetOperation() == admission.Create && a.GetSubresource() == "" && a.GetResource().GroupResource() == corev1.Resource("pods") {
		c, _ := scope.ClusterFrom(ctx)
		_, stored := s.classes.Get(controller.Request{Cluster: c, Name: pod.Spec.PriorityClassName})
		if class := systemClass(pod.Spec.PriorityClassName); class != nil && !stored &&
			(pod.Spec.Priority == nil || *pod.Spec.Priority == class.Value) {
			policy := api.PreemptLowerPriority
			pod.Spec.Priority = &class.Value
			if pod.Spec.PreemptionPolicy == nil {
				pod.Spec.PreemptionPolicy = &policy
			}
			return nil
		}
	}
	return s.Interface.(admission.MutationInterface).Admit(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (s systemPriority) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return s.Interface.(admission.ValidationInterface).Validate(ctx, a, o)
}

func systemClass(name string) *schedulingv1.PriorityClass {
	for _, class := range systemclasses.SystemPriorityClasses() {
		if class.Name == name {
			return class
		}
	}
	return nil
}
