package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// record refuses the Copy of an object that is not here under its UID, or not for
// the syncer's physical cluster. A syncer asks a server that knows the Copy whether
// the object is gone, and deletes below if it is: after a backup was restored, the
// server must not vouch for objects that it has never heard of. A Copy that says
// that nothing is there claims nothing.
func record(ctx context.Context, r *request) error {
	c, ok := r.obj.(*placementv1alpha1.Copy)
	if !ok || r.syncer == "" || c.Status.State == placementv1alpha1.CopyRemoved {
		return nil
	}
	o := c.Spec.Object
	// What the watch cache has is good enough; what it lacks may be new. But an object
	// that a controller below has adopted since is mirrored now, and is not to be made
	// once more: that the cache may not have heard.
	versions := []string{"0", ""}
	if kind, ok := r.kinds.ByResource(schema.GroupResource{Group: o.Group, Resource: o.Resource}); ok && kind.Observed {
		versions = versions[1:]
	}
	for _, version := range versions {
		known, err := r.lookup.known(ctx, r, c, version)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("looking for the object of a Copy: %w", err))
		}
		if known {
			return nil
		}
	}
	return apierrors.NewConflict(r.groupResource(), r.GetName(),
		fmt.Errorf("%s %s with UID %s is not here, or not for %s", o.Kind, o.Name, o.UID, r.syncer))
}

// known reports whether the object of a Copy is here and for the syncer that asks.
func (l *lookup) known(ctx context.Context, r *request, c *placementv1alpha1.Copy, version string) (bool, error) {
	if l.metadata == nil {
		return false, errors.New("there is no client")
	}
	o := c.Spec.Object
	kind, ok := r.kinds.ByResource(schema.GroupResource{Group: o.Group, Resource: o.Resource})
	if !ok {
		return false, nil
	}
	namespace := r.GetNamespace()
	if kind.Role == workload.Container {
		namespace = ""
	}
	obj, err := l.metadata.Resource(kind.GroupVersionResource()).Namespace(namespace).
		Get(at(ctx, r.cluster), o.Name, metav1.GetOptions{ResourceVersion: version})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	entry, ok := stamp.TargetsOf(obj.Annotations)[r.syncer]
	return ok && entry.State != placementv1alpha1.TargetObserved && obj.UID == o.UID, nil
}
