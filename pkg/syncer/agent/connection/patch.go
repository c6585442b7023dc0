package connection

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// PatchStatus says whether the physical cluster took the patch, or will say why not
// by a watch; a refusal is logged, and tried again when the object changes.
func PatchStatus(ctx context.Context, client dynamic.ResourceInterface, name string, patch *unstructured.Unstructured) (bool, error) {
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return false, fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = client.Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: syncer.WantedManager}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true, nil
	case syncer.IsSilence(err):
		return false, err
	}
	klog.FromContext(ctx).Info("Setting conditions of readiness gates failed", "name", name, "err", err)
	return false, nil
}

// PodPatch changes a pod below by a subresource.
type PodPatch struct {
	Subresource string
	// Patch is a strategic merge patch.
	Patch *unstructured.Unstructured
	// Logical is the pod above, Name that of the one below, on Target.
	Logical      *unstructured.Unstructured
	Target, Name string
	// Reason is that of the event on the pod above if the physical cluster refuses, which is
	// tried again when that changes; empty: a RefusedError is returned.
	Reason string
}

// RefusedError says why a physical cluster does not change a pod.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// Send patches the pod. It is nil without an error if nothing is there to be patched any more,
// or if the refusal is an event.
func (p PodPatch) Send(ctx context.Context, up ControlPlane, client dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(p.Patch.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	patched, err := client.Patch(ctx, p.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: syncer.WantedManager}, p.Subresource)
	switch {
	case err == nil:
		return patched, nil
	case IsGone(err), apierrors.IsConflict(err): // the watch is about to say so
		return nil, nil
	}
	refusal, ok := syncer.RefusalOf(err, workload.Kind{})
	if !ok {
		return nil, fmt.Errorf("changing %s of a pod: %w", p.Subresource, err)
	}
	if p.Reason == "" {
		return nil, &RefusedError{refusal.Message}
	}
	WriteEvent(ctx, up, syncer.PodEvent(p.Logical, p.Target, p.Reason, refusal.Message, metav1.Now()))
	return nil, nil
}

// IsGone says that there is no such object; a physical cluster that does not know the subresource
// says the same in other words.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) && !syncer.IsPage(err)
}

// WriteEvent writes an event in the logical cluster of ctx, unless it is there.
func WriteEvent(ctx context.Context, up ControlPlane, event *corev1.Event) {
	if _, err := up.Kube.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		klog.FromContext(ctx).V(2).Info("Writing an event failed", "err", err)
	}
}
