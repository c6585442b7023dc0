package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// act does what was decided about latest.
func (c *Controller) act(ctx context.Context, key item, latest *metav1.PartialObjectMetadata, a action) error {
	if a.verb != leave && a.verb != wait {
		klog.FromContext(ctx).V(2).Info("Collecting", "action", a.verb, "policy", a.policy)
	}
	switch a.verb {
	case removeOwners:
		return c.dropOwners(ctx, key, latest, a.uids...)
	case remove:
		if a.unblock {
			return c.unblockAndDelete(ctx, key, latest, a.policy)
		}
		return c.delete(ctx, key, latest, a.policy)
	case release:
		return c.dropFinalizer(ctx, key, latest, a.finalizer)
	case orphan:
		if err := c.orphanDependents(ctx, key); err != nil {
			return err
		}
		return c.dropFinalizer(ctx, key, latest, a.finalizer)
	case wait:
		c.dependents(key.Cluster, key.UID, func(gvr schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
			if slices.Contains(a.uids, d.UID) {
				c.enqueue(gvr, d)
			}
		})
	}
	return nil
}

// delete deletes latest if it still is what was decided about. A change that
// left its owners as they were changes nothing in the decision.
func (c *Controller) delete(ctx context.Context, key item, latest *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation) error {
	client := c.Client.Resource(key.served).Namespace(key.Namespace)
	options := metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &key.UID, ResourceVersion: &latest.ResourceVersion},
		PropagationPolicy: &policy,
	}
	if observed(latest) {
		// A graceful deletion of what was mirrored from a physical cluster is carried out
		// there. That is for users: what has no owner there is collected there.
		options.GracePeriodSeconds = ptr.To[int64](0)
	}
	err := client.Delete(ctx, key.Name, options)
	if apierrors.IsConflict(err) {
		now, readErr := c.get(ctx, key)
		switch {
		case readErr != nil:
			return readErr
		case now == nil:
			return nil
		case slices.EqualFunc(now.OwnerReferences, latest.OwnerReferences, sameReference):
			options.Preconditions.ResourceVersion = nil
			err = client.Delete(ctx, key.Name, options)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting: %w", err)
	}
	return nil
}

// observed says that an object was mirrored from a physical cluster.
func observed(obj *metav1.PartialObjectMetadata) bool {
	for _, t := range stamp.TargetsOf(obj.Annotations) {
		if t.State == placementv1alpha1.TargetObserved {
			return true
		}
	}
	return false
}

// unblockAndDelete breaks a possible circle of objects that wait for each other.
func (c *Controller) unblockAndDelete(ctx context.Context, key item, latest *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation) error {
	refs := slices.Clone(latest.OwnerReferences)
	for i := range refs {
		refs[i].BlockOwnerDeletion = nil
	}
	now, err := c.patch(ctx, key, latest, map[string]any{"ownerReferences": refs})
	if now == nil || err != nil {
		return err
	}
	return c.delete(ctx, key, now, policy)
}

func (c *Controller) dropOwners(ctx context.Context, key item, latest *metav1.PartialObjectMetadata, uids ...types.UID) error {
	refs := slices.DeleteFunc(slices.Clone(latest.OwnerReferences), func(r metav1.OwnerReference) bool {
		return slices.Contains(uids, r.UID)
	})
	if len(refs) == len(latest.OwnerReferences) {
		return nil
	}
	_, err := c.patch(ctx, key, latest, map[string]any{"ownerReferences": refs})
	return err
}

func (c *Controller) dropFinalizer(ctx context.Context, key item, latest *metav1.PartialObjectMetadata, finalizer string) error {
	rest := slices.DeleteFunc(slices.Clone(latest.Finalizers), func(f string) bool { return f == finalizer })
	if len(rest) == len(latest.Finalizers) {
		return nil
	}
	_, err := c.patch(ctx, key, latest, map[string]any{"finalizers": rest})
	return err
}

// orphanDependents takes the references to an item off all its dependents.
func (c *Controller) orphanDependents(ctx context.Context, key item) error {
	var failures []error
	mapper, err := c.Mapper(ctx, key.Cluster)
	if err != nil {
		return fmt.Errorf("discovering kinds: %w", err)
	}
	c.dependents(key.Cluster, key.UID, func(gvr schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
		if !mayOwn(key, d) {
			return
		}
		served, err := c.served(gvr, mapper)
		if err != nil {
			return // nobody can read it, so nobody misses its owner
		}
		dependent := item{Cluster: key.Cluster, Resource: gvr, served: served, Namespace: d.Namespace, Name: d.Name, UID: d.UID}
		latest, err := c.get(ctx, dependent)
		if err == nil && latest != nil {
			err = c.dropOwners(ctx, dependent, latest, key.UID)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("orphaning %s: %w", controller.RequestFor(d), err))
		}
	})
	return errors.Join(failures...)
}

// patch changes metadata of latest; a conflict says that it changed since. It
// returns nil if the object is gone.
func (c *Controller) patch(ctx context.Context, key item, latest *metav1.PartialObjectMetadata, fields map[string]any) (*metav1.PartialObjectMetadata, error) {
	fields["uid"], fields["resourceVersion"] = latest.UID, latest.ResourceVersion
	body, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	now, err := c.Client.Resource(key.served).Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, body, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("patching: %w", err)
	}
	return now, nil
}
