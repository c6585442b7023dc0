package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// guardMirror refuses a second mirror of one object: its syncer made the first one under the
// second name, as the first was taken, and lacks it, as after a list that came back short.
// With two, nobody would know which one's deletion is meant for what is below.
func guardMirror(ctx context.Context, r *request) error {
	kind, ok := r.kinds.ObservedByResource(r.groupResource())
	uid := mirroredUID(r)
	if !ok || uid == "" {
		return nil
	}
	name := syncer.SecondName(r.obj.GetName(), r.syncer)
	mirrored, err := r.lookup.mirrors(ctx, r, kind, name, uid)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for another mirror: %w", err))
	}
	if !mirrored {
		return nil
	}
	return apierrors.NewConflict(r.groupResource(), r.obj.GetName(), fmt.Errorf("%s mirrors the object with UID %s of %s already", name, uid, r.syncer))
}

// mirroredUID is the UID of what a new object mirrors: named by the syncer, or stamped.
func mirroredUID(r *request) types.UID {
	annotations := r.obj.GetAnnotations()
	if uid := annotations[placementv1alpha1.UIDAnnotation]; uid != "" {
		return types.UID(uid)
	}
	return stamp.TargetsOf(annotations)[r.syncer].UID
}

// mirrors reports whether an object mirrors the one with a UID of the physical cluster of
// the syncer that asks: by the server's informers, or as long as there are none by its
// watch cache.
func (l *lookup) mirrors(ctx context.Context, r *request, kind workload.Kind, name string, uid types.UID) (bool, error) {
	var obj *metav1.PartialObjectMetadata
	if informer := l.follows(kind); informer != nil {
		followed, ok := informer.Get(controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace(), Name: name})
		if !ok {
			return false, nil
		}
		obj = followed
	} else if l.metadata != nil {
		read, err := l.metadata.Resource(kind.GroupVersionResource()).Namespace(r.GetNamespace()).
			Get(at(ctx, r.cluster), name, metav1.GetOptions{ResourceVersion: "0"})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		obj = read
	}
	return obj != nil && stamp.TargetsOf(obj.Annotations)[r.syncer].UID == uid, nil
}
