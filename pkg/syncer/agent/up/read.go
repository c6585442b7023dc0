package up

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

// mostPages bounds what a physical cluster can have us read for one object: a million of its names.
const mostPages = 2000

// viewed is an observed object and where it belongs.
type viewed struct {
	syncer.Observation
	key     view.MirrorKey
	cluster logicalcluster.Name
	client  dynamic.ResourceInterface
	// unwatched: the informer lacks what is below, as if its label was taken off.
	unwatched bool
}

// read gathers what is known of an object; nil if there is nothing to do.
func (r *Reconciler) read(ctx context.Context, key view.MirrorKey) (*viewed, error) {
	kind, ok := r.View.ObservedKind(key.Resource)
	if !ok {
		return nil, nil
	}
	v := &viewed{key: key, Observation: syncer.Observation{Kind: kind, Owner: r.View.Owner, Refers: r.View.UIDAbove, Now: time.Now(), Target: r.View.Target, Permits: r.Permits()}}
	v.Physical = r.View.PhysicalByUID(key.Resource, key.UID)
	v.Logical, _ = r.View.Mirror(key)
	if v.Physical != nil {
		if v.Logical == nil && r.View.IsCopy(key.Resource, v.Physical) {
			return nil, nil
		}
		namespace := r.View.NamespaceOf(v.Physical.GetNamespace())
		switch {
		case v.Logical == nil && (namespace == nil || namespace.GetDeletionTimestamp() != nil):
			return nil, nil // a namespace that is not, or no more, there takes nothing up
		case namespace != nil:
			v.cluster, v.Namespace = logicalcluster.From(namespace), namespace.GetName()
		}
		if !kind.IsPod() && kind.PodTemplate != nil {
			v.Made = r.View.Made(v.Physical.GetUID())
		}
	}
	if v.Logical != nil {
		v.cluster, v.Namespace = logicalcluster.From(v.Logical), v.Logical.GetNamespace()
	}
	if v.cluster.Empty() {
		return nil, nil
	}
	within, _ := r.View.Namespace(v.cluster, v.Namespace)
	v.Permits = syncer.PermitsIn(within, r.View.Target, v.Permits)
	v.client = r.Up.Dynamic.Resource(key.Resource).Namespace(v.Namespace)
	if v.Physical == nil && v.Logical != nil {
		if err := r.lookBelow(ctx, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// lookBelow asks for what the watch lacks: an informer that lost an object, or its label,
// is no witness.
func (r *Reconciler) lookBelow(ctx context.Context, v *viewed) error {
	physical, err := r.findBelow(ctx, v)
	if err != nil {
		return err
	}
	if physical == nil {
		if err := r.Confirm(ctx); err != nil {
			return fmt.Errorf("making sure of whom an object is gone: %w", err)
		}
	}
	v.Physical, v.unwatched = physical, physical != nil
	return nil
}

// findBelow asks the physical cluster for the UID; nil is gone.
func (r *Reconciler) findBelow(ctx context.Context, v *viewed) (*unstructured.Unstructured, error) {
	names := syncer.NamesBelow(v.Logical.GetName(), r.View.Target)
	namespace, _ := r.View.Namespace(v.cluster, v.Namespace)
	place := syncer.PlaceOfMirror(v.Logical, namespace)
	if place == "" {
		return r.findEverywhere(ctx, v, names)
	}
	return r.findIn(ctx, v, place, names)
}

// findIn asks for the names in a physical namespace.
func (r *Reconciler) findIn(ctx context.Context, v *viewed, namespace string, names []string) (*unstructured.Unstructured, error) {
	client := r.Down.Dynamic.Resource(v.key.Resource).Namespace(namespace)
	for _, name := range names {
		obj, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case syncer.IsGone(err, v.key.Resource.GroupResource(), name):
		case err != nil:
			return nil, fmt.Errorf("looking for %s: %w", name, err)
		case obj.GetUID() == v.key.UID:
			return obj, nil
		}
	}
	return nil, nil
}

// findEverywhere asks for the names in all namespaces of the physical cluster:
// nothing that we see says in which one the object was. It asks for metadata, page by page: the ReplicaSets of
// one chart, say, have one name in thousands of namespaces.
func (r *Reconciler) findEverywhere(ctx context.Context, v *viewed, names []string) (*unstructured.Unstructured, error) {
	client, left := r.Down.Metadata.Resource(v.key.Resource), mostPages
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if left--; left < 0 {
			return nil, errors.New("the list has no end")
		}
		return client.List(ctx, o)
	})
	for _, name := range names {
		var in string
		found := errors.New("found")
		err := pages.EachListItem(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		}, func(o runtime.Object) error {
			item, err := meta.Accessor(o)
			if err == nil && item.GetUID() == v.key.UID {
				in, err = item.GetNamespace(), found
			}
			return err //nolint:wrapcheck // below
		})
		switch {
		case errors.Is(err, found):
			return r.findIn(ctx, v, in, []string{name})
		case err != nil:
			return nil, fmt.Errorf("looking everywhere for %s: %w", name, err)
		}
	}
	return nil, nil
}
