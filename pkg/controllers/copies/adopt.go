package copies

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Claim is the Copy of an object that says that a controller below has adopted what
// it records; nil if none does.
func Claim(obj metav1.Object, copies []*placementv1alpha1.Copy) *placementv1alpha1.Copy {
	for _, c := range copies {
		if c.Spec.Object.UID == obj.GetUID() && c.Status.Controller != nil && c.Status.PhysicalUID != "" && !removed(c) {
			return c
		}
	}
	return nil
}

// Adoption makes an object one that was mirrored, with the controller as its owner.
type Adoption struct {
	Targets placementv1alpha1.Targets
	Owners  []metav1.OwnerReference
}

// Adopt decides upon what a Copy claims: the syncer is not believed that the
// controller, of the kind adopting, adopts such objects.
func Adopt(kind workload.Kind, obj metav1.Object, c *placementv1alpha1.Copy, adopting workload.Kind, controller *unstructured.Unstructured) (a Adoption, ok bool) {
	if controller.GetUID() != c.Status.Controller.UID || !syncer.Adopts(adopting, controller, kind, obj, c.Spec.PhysicalCluster) {
		return a, false
	}
	yes := true
	return Adoption{
		Targets: stamp.Adopted(c.Spec.PhysicalCluster, c.Status.PhysicalUID),
		Owners: append(obj.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: controller.GetAPIVersion(), Kind: controller.GetKind(), Name: controller.GetName(), UID: controller.GetUID(),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}),
	}, true
}

// adopt notes an adoption on the object as it was read: stamp and owner in one
// write. The finalizer stays, as its deletion has to be carried out below.
func (s *Controller) adopt(ctx context.Context, k key, obj *metav1.PartialObjectMetadata, c *placementv1alpha1.Copy) error {
	kinds := s.Kinds.Current()
	kind, ok := kinds.ByResource(k.Resource.GroupResource())
	if !ok {
		return nil
	}
	ref := c.Status.Controller
	adopting, ok := kinds.ByKind(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	if !ok || !syncer.MayAdopt(adopting, kind) {
		return nil
	}
	controller, err := s.Dynamic.Resource(adopting.GroupVersionResource()).Namespace(k.Object.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the controller: %w", err)
	}
	a, ok := Adopt(kind, obj, c, adopting, controller)
	if !ok {
		return nil
	}
	patch := stamp.Restamp(obj, func(o metav1.Object) {
		stamp.Set(o, a.Targets)
		o.SetOwnerReferences(a.Owners)
	})
	_, err = s.MetadataClient.Resource(k.Resource).Namespace(k.Object.Namespace).
		Patch(ctx, k.Object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("noting an adoption: %w", err)
	}
	return nil
}
