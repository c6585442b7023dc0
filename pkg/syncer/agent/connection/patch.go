package connection

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/syncer"
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
