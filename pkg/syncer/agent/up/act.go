package up

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// act does what syncer.Observe says, and returns when to look again.
func (r *Reconciler) act(ctx context.Context, v *viewed, actions []syncer.Action) (after time.Duration, err error) {
	for _, a := range actions {
		if after, err = r.one(ctx, v, a); err != nil {
			return 0, err
		}
	}
	return after, nil
}

func (r *Reconciler) one(ctx context.Context, v *viewed, a syncer.Action) (time.Duration, error) {
	switch a.Verb {
	case syncer.Wait:
		return a.After, nil
	case syncer.CreateUp:
		return r.createUp(ctx, v, a.Object)
	case syncer.BindUp:
		return shortDelay, r.bindUp(ctx, v, a.Object)
	case syncer.UpdateUp:
		return 0, r.updateUp(ctx, v, a)
	case syncer.DeleteUp:
		return undoneDelay, r.deleteUp(ctx, v, a.Grace)
	case syncer.Release:
		return undoneDelay, r.release(ctx, v, a.Object)
	case syncer.Delete:
		return r.deleteBelow(ctx, v, a)
	case syncer.Patch:
		return r.patchBelow(ctx, v, a.Object)
	case syncer.PatchStatus:
		return r.patchStatusBelow(ctx, v, a.Object)
	case syncer.AddContainers:
		return 0, r.patchPod(ctx, v, "ephemeralcontainers", syncer.ReasonDebuggingRefused, a.Object)
	case syncer.Resize:
		return 0, r.patchPod(ctx, v, "resize", syncer.ReasonResizeRefused, a.Object)
	case syncer.WriteEvent:
		connection.WriteEvent(ctx, r.Up, a.Event)
		return 0, nil
	}
	return 0, fmt.Errorf("unknown verb %q", a.Verb)
}

// patchPod changes a pod by a subresource, as somebody asked for in the logical cluster.
func (r *Reconciler) patchPod(ctx context.Context, v *viewed, subresource, reason string, patch *unstructured.Unstructured) error {
	_, err := connection.PodPatch{
		Subresource: subresource, Patch: patch, Logical: v.Logical, Target: r.View.Target, Name: v.Physical.GetName(), Reason: reason,
	}.Send(ctx, r.Up, r.Down.Dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace()))
	return err
}

// patchBelow carries out what somebody changed in the logical cluster; what the
// physical cluster refuses is put back.
func (r *Reconciler) patchBelow(ctx context.Context, v *viewed, patch *unstructured.Unstructured) (time.Duration, error) {
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return 0, fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = r.Down.Dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace()).
		Patch(ctx, v.Physical.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: syncer.WantedManager})
	if syncer.IsGone(err, v.key.Resource.GroupResource(), v.Physical.GetName()) {
		r.View.Gone(v.key.Resource, v.Physical)
	}
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return shortDelay, nil // the watch is about to say so
	case syncer.IsSilence(err):
		return 0, err
	}
	klog.FromContext(ctx).Info("Changing what was mirrored failed", "kind", v.Kind.Kind, "cluster", v.cluster, "namespace", v.Namespace,
		"name", v.Physical.GetName(), "err", err)
	return r.act(ctx, v, syncer.Decline(v.Observation))
}

// patchStatusBelow gives a pod that controllers below made the conditions that
// somebody set above.
func (r *Reconciler) patchStatusBelow(ctx context.Context, v *viewed, patch *unstructured.Unstructured) (time.Duration, error) {
	client := r.Down.Dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace())
	done, err := connection.PatchStatus(ctx, client, v.Physical.GetName(), patch)
	switch {
	case err != nil:
		return 0, err
	case done:
		return shortDelay, nil // the watch is about to say so
	}
	return r.act(ctx, v, syncer.Decline(v.Observation))
}

// givenUp says that an admin has given the physical cluster up. The server ends what is mirrored from it then, and what
// that mirrors stays as it is; to the watch it looks as if users deleted their pods, and what is known of the
// physical cluster may be from before.
func (r *Reconciler) givenUp(ctx context.Context) (bool, error) {
	pc, err := r.Up.Atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), r.View.Target, metav1.GetOptions{})
	if syncer.IsGone(err, fleetv1alpha1.Resource("physicalclusters"), r.View.Target) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the PhysicalCluster: %w", err)
	}
	return pc.Spec.Forget, nil
}

// deleteBelow carries out what somebody did in the logical cluster.
func (r *Reconciler) deleteBelow(ctx context.Context, v *viewed, a syncer.Action) (time.Duration, error) {
	if given, err := r.givenUp(ctx); err != nil || given {
		return silenceDelay, err
	}
	o := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(a.UID)), GracePeriodSeconds: a.Grace}
	if a.Propagation != "" {
		o.PropagationPolicy = &a.Propagation
	}
	err := r.Down.Dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace()).Delete(ctx, v.Physical.GetName(), o)
	if syncer.IsGone(err, v.key.Resource.GroupResource(), v.Physical.GetName()) {
		r.View.Gone(v.key.Resource, v.Physical)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return shortDelay, nil // the watch is about to say so
	}
	return 0, err
}
