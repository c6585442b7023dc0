package admission

import (
	"context"
	"errors"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// protect gives the object the system's metadata. The annotation of the logical
// cluster is set here, although storage sets it too: strategies compare
// annotations before, and would see a change.
func (p *plugin) protect(r *request) {
	if r.virtual() {
		return
	}
	if r.syncer != "" && !r.isSubresourceCreate() {
		released := r.old != nil && protect.Released(r.obj, r.old)
		protect.BySyncer(r.obj, r.old, r.GetSubresource() == "status")
		if released && r.GetSubresource() == "" {
			stamp.Release(r.obj)
		}
	}
	switch {
	case r.system || r.groupResource() == copiesResource:
		// free to write them; who else may write Copies was asked before
	case r.old != nil && r.syncer != "" && r.GetSubresource() == "":
		protect.UpdateObserved(r.obj, r.old) // what else a syncer writes was asked before
	case r.old != nil:
		protect.Update(r.obj, r.old)
		// Labels and annotations are all that can be changed of a pod that runs.
		if kind, ok := r.kinds.ByResource(r.groupResource()); ok && kind.IsPod() && r.GetSubresource() == "" && stamp.Mirrored(r.old) {
			stamp.Wanted(r.obj, r.old)
		}
	default:
		observed := types.UID(r.obj.GetAnnotations()[placementv1alpha1.UIDAnnotation])
		protect.Create(r.obj)
		if r.syncer != "" && !r.isSubresourceCreate() && r.GetNamespace() != "" {
			kind, _ := r.kinds.Find(r.groupResource()) // Events are of none
			stamp.Observed(kind, r.obj, r.syncer, observed)
		}
	}
	if r.isSubresourceCreate() {
		return
	}
	stamp.Cluster(r.obj, r.cluster)
	if r.system && r.old == nil {
		// What the server makes has no fields of others to tell from its own. There
		// is some of it in each logical cluster, and in memory several times.
		r.obj.SetManagedFields(nil)
	}
}

// checkProtected makes sure that no plugin after Admit changed the system's
// metadata.
func (p *plugin) checkProtected(ctx context.Context, r *request) error {
	if r.virtual() || r.isSubresourceCreate() {
		return nil
	}
	if r.old != nil && logicalcluster.From(r.old) == "" {
		return nil // a Scale, which is made from the object and has none of this
	}
	if logicalcluster.From(r.obj) != r.cluster {
		return admission.NewForbidden(r.Attributes, errors.New("the annotation "+logicalcluster.AnnotationKey+" was changed after it was set"))
	}
	if !r.user() || r.old == nil {
		return nil
	}
	if protect.Equal(r.obj, r.old) {
		return nil
	}
	allowed, err := p.placing.allowed(ctx, r)
	if err == nil && !allowed {
		// By a plugin, or by a decision that was made meanwhile: to be sent again.
		err = apierrors.NewConflict(r.groupResource(), r.GetName(), errors.New("metadata of the system was changed after it was set"))
	}
	return err
}
