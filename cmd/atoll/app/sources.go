package app

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// sources are the informers that have whole objects, all of their resource: their
// metadata needs no watch of its own.
func (c *composition) sources() []controller.Source {
	chain, rules := c.chain.Informers(), admissionregistrationv1.SchemeGroupVersion
	return []controller.Source{
		controller.From(corev1.SchemeGroupVersion.WithResource("namespaces"), c.namespaces),
		controller.From(tenancyv1alpha1.SchemeGroupVersion.WithResource("logicalclusters"), c.logicalClusters),
		controller.From(fleetv1alpha1.SchemeGroupVersion.WithResource("physicalclusters"), c.physicalClusters),
		controller.From(placementv1alpha1.SchemeGroupVersion.WithResource("placements"), c.placements),
		controller.From(placementv1alpha1.SchemeGroupVersion.WithResource("clusterplacementpolicies"), c.policies),
		controller.From(placementv1alpha1.SchemeGroupVersion.WithResource("placementpolicies"), c.nsPolicies),
		controller.From(placementv1alpha1.SchemeGroupVersion.WithResource("copies"), c.copies),
		controller.From(coordinationv1.SchemeGroupVersion.WithResource("leases"), c.leases),
		controller.From(corev1.SchemeGroupVersion.WithResource("resourcequotas"), chain.Quotas),
		controller.From(corev1.SchemeGroupVersion.WithResource("limitranges"), chain.Limits),
		controller.From(schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), chain.PriorityClasses),
		controller.From(storagev1.SchemeGroupVersion.WithResource("storageclasses"), chain.StorageClasses),
		controller.From(nodev1.SchemeGroupVersion.WithResource("runtimeclasses"), chain.RuntimeClasses),
		controller.From(networkingv1.SchemeGroupVersion.WithResource("ingressclasses"), chain.IngressClasses),
		controller.From(rules.WithResource("validatingadmissionpolicies"), chain.ValidatingPolicies),
		controller.From(rules.WithResource("validatingadmissionpolicybindings"), chain.ValidatingBindings),
		controller.From(rules.WithResource("mutatingadmissionpolicies"), chain.MutatingPolicies),
		controller.From(rules.WithResource("mutatingadmissionpolicybindings"), chain.MutatingBindings),
		controller.From(rules.WithResource("validatingwebhookconfigurations"), chain.ValidatingWebhooks),
		controller.From(rules.WithResource("mutatingwebhookconfigurations"), chain.MutatingWebhooks),
	}
}
