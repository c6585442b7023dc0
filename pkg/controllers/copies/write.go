package copies

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// acknowledgementsStand says whether the server still has the acknowledgements of
// removals that the informer has. One that another server has used up says nothing
// about the copy that the same object was given since.
func (s *Controller) acknowledgementsStand(ctx context.Context, obj *metav1.PartialObjectMetadata, copies []*placementv1alpha1.Copy) (bool, error) {
	for _, c := range copies {
		if !removed(c) || c.Spec.Object.UID != obj.UID {
			continue
		}
		live, err := s.Client.PlacementV1alpha1().Copies(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil // our view of it will come
		case err != nil:
			return false, fmt.Errorf("reading an acknowledgement: %w", err)
		case live.UID != c.UID:
			return false, nil
		}
	}
	return true, nil
}

// write patches finalizers and targets of the object as it was read: a newer one
// is a conflict and decided upon anew.
func (s *Controller) write(ctx context.Context, k key, obj *metav1.PartialObjectMetadata, v Verdict) error {
	patch := stamp.Restamp(obj, func(o metav1.Object) {
		if v.Drop {
			stamp.Set(o, v.Targets)
		}
		if v.Finalizer {
			stamp.Release(o)
		}
	})
	if patch == nil {
		return nil
	}
	_, err := s.MetadataClient.Resource(k.Resource).Namespace(k.Object.Namespace).
		Patch(ctx, k.Object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking note of a removal: %w", err)
	}
	return nil
}

// finish ends the time that an object has to stop in; our finalizer still holds it.
func (s *Controller) finish(ctx context.Context, k key, obj *metav1.PartialObjectMetadata) error {
	now := int64(0)
	err := s.MetadataClient.Resource(k.Resource).Namespace(k.Object.Namespace).Delete(ctx, k.Object.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &obj.UID}, GracePeriodSeconds: &now,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finishing a deletion: %w", err)
	}
	return nil
}

func (s *Controller) deleteCopy(ctx context.Context, c *placementv1alpha1.Copy) error {
	err := s.Client.PlacementV1alpha1().Copies(c.Namespace).Delete(ctx, c.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting a copy: %w", err)
	}
	return nil
}

var namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")

// sweep deletes the Copies that are acknowledged and the Placements of a
// Namespace that is gone, or is about to be: its content has been deleted. A
// Placement that was made for a younger Namespace of the name stays.
func (s *Controller) sweep(ctx context.Context, r controller.Request, namespace *metav1.PartialObjectMetadata) error {
	for _, c := range s.Copies.ListNamespace(r.Cluster, r.Name) {
		if !removed(c) {
			continue
		}
		if namespace != nil && c.Spec.Object.UID == namespace.UID {
			continue // still needed as the acknowledgement, until the finalizer is off
		}
		if err := s.deleteCopy(ctx, c); err != nil {
			return err
		}
	}
	placements, err := s.Client.PlacementV1alpha1().Placements(r.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing placements: %w", err)
	}
	// Read after the Placements: whoever made one of them had its Namespace.
	live, err := s.MetadataClient.Resource(namespaceResource).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if err != nil || namespace != nil && live.UID == namespace.UID {
		live = nil // gone, or the one that is swept: no younger one
	}
	for _, p := range placements.Items {
		if live != nil && (metav1.GetControllerOf(&p) == nil || metav1.GetControllerOf(&p).UID == live.UID) {
			continue
		}
		err := s.Client.PlacementV1alpha1().Placements(r.Name).Delete(ctx, p.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting a placement: %w", err)
		}
	}
	return nil
}
