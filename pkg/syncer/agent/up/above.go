package up

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

// createUp makes a mirror; whoever waits for it is woken.
func (r *Reconciler) createUp(ctx context.Context, v *viewed, obj *unstructured.Unstructured) (time.Duration, error) {
	created, err := v.client.Create(ctx, obj, metav1.CreateOptions{})
	clash := syncer.Clash{Target: r.View.Target, Kind: v.Kind, Name: obj.GetName(), Physical: v.Physical}
	for apierrors.IsAlreadyExists(err) {
		if clash.Tries++; clash.Tries == 1 {
			existing, err := v.client.Get(ctx, obj.GetName(), metav1.GetOptions{})
			switch {
			case err == nil:
				clash.Existing = existing
			case !apierrors.IsNotFound(err):
				return 0, fmt.Errorf("looking for what has the name of a mirror: %w", err)
			}
		}
		name, after := clash.Resolve()
		if after > 0 {
			return after, nil
		}
		obj.SetName(name)
		created, err = v.client.Create(ctx, obj, metav1.CreateOptions{})
	}
	switch {
	case syncer.IsNamespaceGone(err):
		return time.Second, nil
	case apierrors.IsConflict(err): // it is mirrored under another name, which our watch has not shown
		r.View.DoubtMirrors(v.key.Resource)
		return time.Second, nil
	case err != nil:
		return r.unwelcome(ctx, v, "Mirroring failed", err)
	}
	r.View.WrittenMirrors.Put(v.key, created)
	r.Mirrored(v.key)
	if withStatus, differs := syncer.StatusUp(v.Observation, created); differs && syncer.HasStatus(v.Kind) {
		return 0, r.writeStatus(ctx, v, withStatus)
	}
	return 0, nil
}

func (r *Reconciler) updateUp(ctx context.Context, v *viewed, a syncer.Action) error {
	obj := a.Object
	if a.Spec {
		status := obj.Object["status"]
		updated, err := v.client.Update(ctx, obj, metav1.UpdateOptions{})
		if err != nil {
			if _, err := r.unwelcome(ctx, v, "Updating what was mirrored failed", err); err != nil {
				return r.outdated(v, err)
			}
		} else {
			r.View.WrittenMirrors.Put(v.key, updated)
			obj = updated
			if status != nil {
				obj = updated.DeepCopy()
				obj.Object["status"] = status
			}
		}
	}
	if a.Status && syncer.HasStatus(v.Kind) {
		return r.writeStatus(ctx, v, obj)
	}
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, v *viewed, obj *unstructured.Unstructured) error {
	updated, err := v.client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	if err != nil {
		if _, err := r.unwelcome(ctx, v, "Writing the status of what was mirrored failed", err); err != nil {
			return r.outdated(v, err)
		}
		return nil
	}
	r.View.WrittenMirrors.Put(v.key, updated)
	return nil
}

// bindUp gives the pod in the logical cluster its node.
func (r *Reconciler) bindUp(ctx context.Context, v *viewed, desired *unstructured.Unstructured) error {
	node, _, _ := unstructured.NestedString(desired.Object, "spec", "nodeName")
	err := r.Up.Kube.CoreV1().Pods(v.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Logical.GetName(), UID: v.Logical.GetUID()},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	r.View.WrittenMirrors.Forget(v.key, v.Logical.GetUID())
	switch {
	case err == nil, v.isOutdated(err):
		return nil
	case syncer.IsSilence(err), apierrors.IsNotFound(err):
		return err
	}
	// Who may not bind makes it again, with its node.
	return r.deleteUp(ctx, v, ptr.To[int64](0))
}

// deleteUp removes what mirrors an object below; for one that is still there only
// as it was seen: a backup may have been restored meanwhile.
func (r *Reconciler) deleteUp(ctx context.Context, v *viewed, grace *int64) error {
	uid := v.Logical.GetUID()
	as := &metav1.Preconditions{UID: &uid}
	if v.Physical != nil {
		as.ResourceVersion = ptr.To(v.Logical.GetResourceVersion())
	}
	err := v.client.Delete(ctx, v.Logical.GetName(), metav1.DeleteOptions{
		Preconditions:      as,
		GracePeriodSeconds: grace,
		PropagationPolicy:  ptr.To(metav1.DeletePropagationBackground),
	})
	r.View.WrittenMirrors.Forget(v.key, uid)
	if err == nil || v.isOutdated(err) {
		return nil // what it is now is on its way to us
	}
	return fmt.Errorf("removing what was mirrored: %w", err)
}

// release lets go of what is being deleted.
func (r *Reconciler) release(ctx context.Context, v *viewed, obj *unstructured.Unstructured) error {
	_, err := v.client.Update(ctx, obj, metav1.UpdateOptions{})
	r.View.WrittenMirrors.Forget(v.key, v.Logical.GetUID())
	if err == nil || v.isGone(err) {
		return nil
	}
	return fmt.Errorf("letting go of what was mirrored: %w", err)
}

// outdated forgets what a conflict proves wrong; what is gone will be seen to be.
func (r *Reconciler) outdated(v *viewed, err error) error {
	if v.Logical != nil {
		r.View.WrittenMirrors.Forget(v.key, v.Logical.GetUID())
	}
	if v.Logical != nil && v.isGone(err) {
		return nil
	}
	return err
}

// isGone says that the control plane answered that the mirror is not there, and isOutdated that it is not the one that
// was seen: what there is now is on its way to us. Whoever else is not found, as by a load balancer, says nothing of it.
func (v *viewed) isGone(err error) bool {
	return syncer.IsGone(err, v.key.Resource.GroupResource(), v.Logical.GetName())
}

func (v *viewed) isOutdated(err error) bool {
	return syncer.IsOutdated(err, v.key.Resource.GroupResource(), v.Logical.GetName())
}

// unwelcome: the control plane refuses an object that exists. That is reported
// and tried again at times; it is no reason to hurry.
func (r *Reconciler) unwelcome(ctx context.Context, v *viewed, message string, err error) (time.Duration, error) {
	if syncer.IsSilence(err) || apierrors.IsConflict(err) || syncer.IsPage(err) {
		return 0, err
	}
	klog.FromContext(ctx).Info(message, "kind", v.Kind.Kind, "cluster", v.cluster, "namespace", v.Namespace,
		"name", v.Physical.GetName(), "err", err)
	return time.Minute, nil
}
