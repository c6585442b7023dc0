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
// it records; nil if none does, or if the object says so already.
func Claim(obj metav1.Object, copies []*placementv1alpha1.Copy) *placementv1alpha1.Copy {
	targets := stamp.TargetsOf(obj.GetAnnotations())
	for _, c := range copies {
		if targets[c.Spec.PhysicalCluster].State == placementv1alpha1.TargetObserved {
			continue
		}
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
//
//	the claim  the controller, asked now    the object may be   do
//	made       is gone or does not adopt    any                 nothing
//	made       adopts                       adopted             accept the claim, then write the object
//	accepted   any                          adopted             write the object
//	accepted   any                          not adopted         take the acceptance back
//
// Copy and object cannot be written at once. Once the claim is accepted, which is a
// conflict for a syncer that withdraws it, only a change of the object stops the write of
// the object: that is a conflict for whoever was about to write it.
func Adopt(kind workload.Kind, obj metav1.Object, c *placementv1alpha1.Copy, adopting workload.Kind, controller *unstructured.Unstructured) (a Adoption, ok bool) {
	target := c.Spec.PhysicalCluster
	switch {
	case syncer.AdoptionAccepted(c):
		ok = syncer.Adoptable(obj, target)
	case controller != nil:
		ok = controller.GetUID() == c.Status.Controller.UID && syncer.Adopts(adopting, controller, kind, obj, target)
	}
	if !ok {
		return a, false
	}
	yes := true
	return Adoption{
		Targets: stamp.Adopted(target, c.Status.PhysicalUID),
		Owners: append(obj.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: adopting.GroupVersion().String(), Kind: adopting.Kind, Name: c.Status.Controller.Name, UID: c.Status.Controller.UID,
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
	switch {
	case apierrors.IsNotFound(err):
		controller = nil
	case err != nil:
		return fmt.Errorf("reading the controller: %w", err)
	}
	a, ok := Adopt(kind, obj, c, adopting, controller)
	switch accepted := syncer.AdoptionAccepted(c); {
	case !ok && accepted:
		return s.answer(ctx, c, syncer.ReasonAdopted)
	case !ok:
		return nil
	case !accepted:
		if err := s.answer(ctx, c, syncer.ReasonAdoptionAccepted); err != nil {
			return err
		}
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

// answer says on the Copy what became of its claim. A Copy that was written since is a
// conflict, and decided upon anew.
func (s *Controller) answer(ctx context.Context, c *placementv1alpha1.Copy, reason string) error {
	answered := c.DeepCopy()
	answered.Status.Reason = reason
	if _, err := s.Client.PlacementV1alpha1().Copies(c.Namespace).Update(ctx, answered, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("answering the claim of an adoption: %w", err)
	}
	return nil
}
