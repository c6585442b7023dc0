package admission

import (
	"context"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// Informers are what the chain knows of all logical clusters besides what Config
// has. They are few and small: a logical cluster has none of these objects
// unless somebody wants them.
type Informers struct {
	Quotas             *controller.Informer[*corev1.ResourceQuota]
	Limits             *controller.Informer[*corev1.LimitRange]
	PriorityClasses    *controller.Informer[*schedulingv1.PriorityClass]
	StorageClasses     *controller.Informer[*storagev1.StorageClass]
	RuntimeClasses     *controller.Informer[*nodev1.RuntimeClass]
	IngressClasses     *controller.Informer[*networkingv1.IngressClass]
	ValidatingPolicies *controller.Informer[*admissionregistrationv1.ValidatingAdmissionPolicy]
	ValidatingBindings *controller.Informer[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
	MutatingPolicies   *controller.Informer[*admissionregistrationv1.MutatingAdmissionPolicy]
	MutatingBindings   *controller.Informer[*admissionregistrationv1.MutatingAdmissionPolicyBinding]
	ValidatingWebhooks *controller.Informer[*admissionregistrationv1.ValidatingWebhookConfiguration]
	MutatingWebhooks   *controller.Informer[*admissionregistrationv1.MutatingWebhookConfiguration]

	// ServiceAccounts may lack some: what is not there is read from the server.
	// Others run it.
	ServiceAccounts *controller.Informer[*corev1.ServiceAccount]
}

// NewInformers makes all but ServiceAccounts, which is accounts; kube takes the
// logical cluster from the context.
func NewInformers(kube kubernetes.Interface, accounts *controller.Informer[*corev1.ServiceAccount]) Informers {
	rules := kube.AdmissionregistrationV1()
	return Informers{
		ServiceAccounts: accounts,
		Quotas: controller.NewInformer("resourcequotas", &corev1.ResourceQuota{},
			controller.Lists(kube.CoreV1().ResourceQuotas("")), controller.InformerOptions[*corev1.ResourceQuota]{}),
		Limits: controller.NewInformer("limitranges", &corev1.LimitRange{},
			controller.Lists(kube.CoreV1().LimitRanges("")), controller.InformerOptions[*corev1.LimitRange]{}),
		PriorityClasses: controller.NewInformer("priorityclasses", &schedulingv1.PriorityClass{},
			controller.Lists(kube.SchedulingV1().PriorityClasses()), controller.InformerOptions[*schedulingv1.PriorityClass]{}),
		StorageClasses: controller.NewInformer("storageclasses", &storagev1.StorageClass{},
			controller.Lists(kube.StorageV1().StorageClasses()), controller.InformerOptions[*storagev1.StorageClass]{}),
		RuntimeClasses: controller.NewInformer("runtimeclasses", &nodev1.RuntimeClass{},
			controller.Lists(kube.NodeV1().RuntimeClasses()), controller.InformerOptions[*nodev1.RuntimeClass]{}),
		IngressClasses: controller.NewInformer("ingressclasses", &networkingv1.IngressClass{},
			controller.Lists(kube.NetworkingV1().IngressClasses()), controller.InformerOptions[*networkingv1.IngressClass]{}),
		ValidatingPolicies: controller.NewInformer("validatingadmissionpolicies", &admissionregistrationv1.ValidatingAdmissionPolicy{},
			controller.Lists(rules.ValidatingAdmissionPolicies()), controller.InformerOptions[*admissionregistrationv1.ValidatingAdmissionPolicy]{}),
		ValidatingBindings: controller.NewInformer("validatingadmissionpolicybindings", &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
			controller.Lists(rules.ValidatingAdmissionPolicyBindings()), controller.InformerOptions[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{}),
		MutatingPolicies: controller.NewInformer("mutatingadmissionpolicies", &admissionregistrationv1.MutatingAdmissionPolicy{},
			controller.Lists(rules.MutatingAdmissionPolicies()), controller.InformerOptions[*admissionregistrationv1.MutatingAdmissionPolicy]{}),
		MutatingBindings: controller.NewInformer("mutatingadmissionpolicybindings", &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
			controller.Lists(rules.MutatingAdmissionPolicyBindings()), controller.InformerOptions[*admissionregistrationv1.MutatingAdmissionPolicyBinding]{}),
		ValidatingWebhooks: controller.NewInformer("validatingwebhookconfigurations", &admissionregistrationv1.ValidatingWebhookConfiguration{},
			controller.Lists(rules.ValidatingWebhookConfigurations()), controller.InformerOptions[*admissionregistrationv1.ValidatingWebhookConfiguration]{}),
		MutatingWebhooks: controller.NewInformer("mutatingwebhookconfigurations", &admissionregistrationv1.MutatingWebhookConfiguration{},
			controller.Lists(rules.MutatingWebhookConfigurations()), controller.InformerOptions[*admissionregistrationv1.MutatingWebhookConfiguration]{}),
	}
}

// informer is any of them.
type informer interface {
	Run(context.Context)
	HasSynced() bool
	WaitForSync(context.Context) error
}

// own are those that the chain runs.
func (i Informers) own() []informer {
	return []informer{
		i.Quotas, i.Limits, i.PriorityClasses, i.StorageClasses, i.RuntimeClasses, i.IngressClasses,
		i.ValidatingPolicies, i.ValidatingBindings, i.MutatingPolicies, i.MutatingBindings, i.ValidatingWebhooks, i.MutatingWebhooks,
	}
}

func (i Informers) viewers(c Config) controller.Viewers {
	return controller.NewViewers(
		c.Namespaces, i.ServiceAccounts, i.Quotas, i.Limits, i.PriorityClasses, i.StorageClasses, i.RuntimeClasses, i.IngressClasses,
		i.ValidatingPolicies, i.ValidatingBindings, i.MutatingPolicies, i.MutatingBindings, i.ValidatingWebhooks, i.MutatingWebhooks)
}

// run blocks until the informers and the others have ended.
func (i Informers) run(ctx context.Context, others ...func(context.Context)) {
	var all sync.WaitGroup
	for _, informer := range i.own() {
		all.Go(func() { informer.Run(ctx) })
	}
	for _, run := range others {
		all.Go(func() { run(ctx) })
	}
	all.Wait()
}
