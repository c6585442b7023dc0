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

// WantedManager owns below what users changed on what was mirrored, and conditions that
// somebody set above.
const WantedManager = "atoll-wanted"

// PatchStatus says whether the physical cluster took the patch, or will say why not
// by a watch; a refusal is logged, and tried again when the object changes.
func PatchStatus(ctx context.Context, client dynamic.ResourceInterface, name string, patch *unstructured.Unstructured) (bool, error) {
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return false, fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = client.Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: WantedManager}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true, nil
	case syncer.IsSilence(err):
		return false, err
	}
	klog.FromContext(ctx).Info("Setting conditions of readiness gates failed", "name", name, "err", err)
	return false, nil
}

// AddContainers adds the ephemeral containers of a patch to a pod. What the physical cluster
// refuses is an event on the pod above, and tried again when that changes.
func AddContainers(ctx context.Context, up ControlPlane, client dynamic.ResourceInterface, logical *unstructured.Unstructured, target, name string, patch *unstructured.Unstructured) error {
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = client.Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: WantedManager}, "ephemeralcontainers")
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // the watch is about to say so
		return nil
	}
	refusal, ok := syncer.RefusalOf(err, workload.Kind{})
	if !ok {
		return fmt.Errorf("adding ephemeral containers: %w", err)
	}
	WriteEvent(ctx, up, syncer.ContainerRefused(logical, target, refusal.Message, metav1.Now()))
	return nil
}

// WriteEvent writes an event in the logical cluster of ctx, unless it is there.
func WriteEvent(ctx context.Context, up ControlPlane, event *corev1.Event) {
	if _, err := up.Kube.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		klog.FromContext(ctx).V(2).Info("Writing an event failed", "err", err)
	}
}
