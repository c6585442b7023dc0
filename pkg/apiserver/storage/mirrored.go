package storage

import (
	"context"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	objectstamp "github.com/atoll-dev/atoll/pkg/stamp"
)

// keepUID gives a pod that is mirrored the UID that it has on its physical cluster: the
// pod knows itself by that, and what it makes itself the owner of must not look like
// something whose owner is gone. It is done here since the registry gives every new
// object a UID of its own. A syncer chooses the UIDs of its mirrors by it, among those
// that are well formed, and within the namespaces that are placed with it: garbage is
// collected by name and UID.
func keepUID(ctx context.Context, gr schema.GroupResource, obj runtime.Object) {
	target, viewed := scope.TargetFrom(ctx)
	if !viewed || gr != pods {
		return
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	entry := objectstamp.TargetsOf(m.GetAnnotations())[target]
	if entry.State == placementv1alpha1.TargetObserved && isUID(entry.UID) {
		m.SetUID(entry.UID)
	}
}

var pods = schema.GroupResource{Resource: "pods"}

// isUID says that a UID is written as every server writes it.
func isUID(uid types.UID) bool {
	parsed, err := uuid.Parse(string(uid))
	return err == nil && parsed.String() == string(uid)
}
