package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// record has the rules of the namespace stamped before a syncer records the first thing
// that they rule.
func (p *placing) record(ctx context.Context, r *request) error {
	c, err := claimed(ctx, r)
	if err != nil || c == nil {
		return err
	}
	kind, _, ok := objectOf(r, c)
	if !ok {
		return nil
	}
	switch err := p.rules.ahead(ctx, r, kind); {
	case apierrors.IsConflict(err):
		return apierrors.NewConflict(r.groupResource(), r.GetName(), err)
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("stamping what rules %s: %w", c.Spec.Object.Name, err))
	}
	return nil
}

// claimed is the Copy of a request; nil if it says that nothing is there, which claims
// nothing. The Copy of an object that is not here under its UID, or not for the syncer's
// physical cluster, is refused. A syncer asks a server that knows the Copy whether the object
// is gone, and deletes below if it is: after a backup was restored, the server must not vouch
// for objects that it has never heard of.
func claimed(ctx context.Context, r *request) (*placementv1alpha1.Copy, error) {
	c, ok := r.obj.(*placementv1alpha1.Copy)
	if !ok || r.syncer == "" || c.Status.State == placementv1alpha1.CopyRemoved {
		return nil, nil
	}
	o := c.Spec.Object
	// What the watch cache has is good enough, and so is what follows it; what they lack
	// may be new. But an object that a controller below has adopted since is mirrored now,
	// and is not to be made once more: that they may not have heard.
	versions := []string{"0", ""}
	if kind, _, ok := objectOf(r, c); ok && kind.Observed {
		versions = versions[1:]
	} else if r.lookup.followed(r, c) {
		return c, nil
	}
	for _, version := range versions {
		known, err := r.lookup.known(ctx, r, c, version)
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("looking for the object of a Copy: %w", err))
		}
		if known {
			return c, nil
		}
	}
	return nil, apierrors.NewConflict(r.groupResource(), r.GetName(),
		fmt.Errorf("%s %s with UID %s is not here, or not for %s", o.Kind, o.Name, o.UID, r.syncer))
}

// followed reports what known does, as far as the server's informers of metadata have
// heard of the object. No is no answer.
func (l *lookup) followed(r *request, c *placementv1alpha1.Copy) bool {
	kind, namespace, ok := objectOf(r, c)
	if !ok {
		return false
	}
	informer := l.follows(kind)
	if informer == nil {
		return false
	}
	obj, ok := informer.Get(controller.Request{Cluster: r.cluster, Namespace: namespace, Name: c.Spec.Object.Name})
	return ok && isFor(obj, c, r.syncer)
}

// follows is the server's informer of the metadata of a kind; nil as long as there is none.
func (l *lookup) follows(kind workload.Kind) *controller.Informer[*metav1.PartialObjectMetadata] {
	if l.objects == nil {
		return nil
	}
	objects := l.objects()
	if objects == nil {
		return nil
	}
	return placed.Of(objects, kind)
}

// known reports whether the object of a Copy is here and for the syncer that asks.
func (l *lookup) known(ctx context.Context, r *request, c *placementv1alpha1.Copy, version string) (bool, error) {
	if l.metadata == nil {
		return false, errors.New("there is no client")
	}
	kind, namespace, ok := objectOf(r, c)
	if !ok {
		return false, nil
	}
	obj, err := l.metadata.Resource(kind.GroupVersionResource()).Namespace(namespace).
		Get(at(ctx, r.cluster), c.Spec.Object.Name, metav1.GetOptions{ResourceVersion: version})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return isFor(obj, c, r.syncer), nil
}

// objectOf is the kind of the object of a Copy, and the namespace that it is in.
func objectOf(r *request, c *placementv1alpha1.Copy) (kind workload.Kind, namespace string, ok bool) {
	o := c.Spec.Object
	kind, ok = r.kinds.ByResource(schema.GroupResource{Group: o.Group, Resource: o.Resource})
	if kind.Role == workload.Container {
		return kind, "", ok
	}
	return kind, r.GetNamespace(), ok
}

// isFor reports whether an object is the one of a Copy, and has a place on the target of
// a syncer.
func isFor(obj *metav1.PartialObjectMetadata, c *placementv1alpha1.Copy, syncer string) bool {
	entry, ok := stamp.TargetsOf(obj.Annotations)[syncer]
	return ok && entry.State != placementv1alpha1.TargetObserved && obj.UID == c.Spec.Object.UID
}
