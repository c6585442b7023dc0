package stock

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// resizing leaves to physical clusters whether a claim may grow whose class is one of theirs.
//
//	the claim      its class                           it may grow
//	is not bound   any                                 no: as the stock plugin says
//	is bound       is one of the logical cluster       as the stock plugin says, by that class
//	is bound       none, or one it has no object of    yes: the API server of the physical cluster decides,
//	                                                   and the Copy says if that refuses
type resizing struct {
	admission.Interface // the stock plugin
	classes             *controller.Informer[*storagev1.StorageClass]
}

var _ admission.ValidationInterface = resizing{}

// WithClassesBelow wraps the stock plugin PersistentVolumeClaimResize.
func WithClassesBelow(stock admission.Interface, classes *controller.Informer[*storagev1.StorageClass]) admission.Interface {
	return resizing{Interface: stock, classes: classes}
}

// Validate implements admission.ValidationInterface.
func (r resizing) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !grows(a) {
		return nil
	}
	claim := a.GetOldObject().(*api.PersistentVolumeClaim)
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return admission.NewForbidden(a, scope.ErrNoCluster)
	}
	_, known := r.classes.Get(controller.Request{Cluster: c, Name: helper.GetPersistentVolumeClaimClass(claim)})
	if known || claim.Status.Phase != api.ClaimBound {
		return r.Interface.(admission.ValidationInterface).Validate(ctx, a, o)
	}
	warning.AddWarning(ctx, "", "whether a volume of its class may grow is decided by the physical cluster that has it: see the Copy of the claim")
	return nil
}

// grows says that a claim is to be larger than before.
func grows(a admission.Attributes) bool {
	if a.GetSubresource() != "" || a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") {
		return false
	}
	before, ok := a.GetOldObject().(*api.PersistentVolumeClaim)
	now, isClaim := a.GetObject().(*api.PersistentVolumeClaim)
	if !ok || !isClaim {
		return false
	}
	had, wants := before.Spec.Resources.Requests[api.ResourceStorage], now.Spec.Resources.Requests[api.ResourceStorage]
	return wants.Cmp(had) > 0
}
