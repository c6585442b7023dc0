package stock

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Annotations that make a StorageClass the default.
const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	defaultClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// storageClass gives a claim that names no class the default one. It is
// upstream's DefaultStorageClass, whose package would link the volume plugins.
type storageClass struct {
	*admission.Handler
	classes *controller.Informer[*storagev1.StorageClass]
}

var _ admission.MutationInterface = storageClass{}

// NewDefaultStorageClass makes the plugin.
func NewDefaultStorageClass(classes *controller.Informer[*storagev1.StorageClass]) admission.Interface {
	return storageClass{Handler: admission.NewHandler(admission.Create), classes: classes}
}

// Admit implements admission.MutationInterface.
func (s storageClass) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, ok := a.GetObject().(*api.PersistentVolumeClaim)
	if !ok || helper.PersistentVolumeClaimHasClass(claim) {
		return nil
	}
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return admission.NewForbidden(a, scope.ErrNoCluster)
	}
	if class := newestDefault(s.classes.ListCluster(c)); class != nil {
		claim.Spec.StorageClassName = &class.Name
	}
	return nil
}

// newestDefault is the newest of the default classes, nil if there is none.
func newestDefault(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	classes = slices.DeleteFunc(slices.Clone(classes), func(c *storagev1.StorageClass) bool {
		return c.Annotations[defaultClass] != "true" && c.Annotations[defaultClassBeta] != "true"
	})
	if len(classes) == 0 {
		return nil
	}
	return slices.MinFunc(classes, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
