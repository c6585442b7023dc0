package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

// patchStatusBelow gives a pod that controllers below made the conditions that
// somebody set above.
func (s *session) patchStatusBelow(ctx context.Context, v *viewed, patch *unstructured.Unstructured) (time.Duration, error) {
	done, err := patchStatus(ctx, s.down.dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace()), v.Physical.GetName(), patch)
	switch {
	case err != nil:
		return 0, err
	case done:
		return 100 * time.Millisecond, nil // the watch is about to say so
	}
	return s.respond(ctx, v, syncer.Decline(v.Observation))
}

// carryGates does the same for the copy of a pod of a user.
func (p *pass) carryGates(ctx context.Context) error {
	if p.kind.Kind != "Pod" || p.after > 0 || p.in.Failure != nil {
		return nil
	}
	patch := syncer.CopiedGatesBelow(p.in.Logical, p.in.Physical)
	if patch == nil {
		return nil
	}
	_, err := patchStatus(ctx, p.physicalClient(), p.in.Physical.GetName(), patch)
	return err
}

// patchStatus says whether the physical cluster took the patch, or will say why not
// by a watch; a refusal is logged, and tried again when the pod changes.
func patchStatus(ctx context.Context, client dynamic.ResourceInterface, name string, patch *unstructured.Unstructured) (bool, error) {
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return false, fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = client.Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: wantedManager}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true, nil
	case isSilence(err):
		return false, err
	}
	klog.FromContext(ctx).Info("Setting conditions of readiness gates failed", "name", name, "err", err)
	return false, nil
}
