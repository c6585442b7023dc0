package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
	"k8s.io/kubernetes/pkg/registry/core/node"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/selecting"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Source reads PhysicalClusters: their storage.
type Source interface {
	rest.Getter
	rest.Lister
	rest.Watcher
}

// REST serves Nodes.
type REST struct {
	rest.TableConvertor
	source func() Source
}

var (
	_ rest.Storage              = &REST{}
	_ rest.Scoper               = &REST{}
	_ rest.SingularNameProvider = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.Getter               = &REST{}
	_ rest.Lister               = &REST{}
	_ rest.Watcher              = &REST{}
	_ rest.Creater              = &REST{}
	_ rest.Updater              = &REST{}
)

// NewREST makes the storage; source is asked for when the first request comes.
func NewREST(source func() Source) *REST {
	return &REST{source: source, TableConvertor: printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}}
}

// New implements rest.Storage.
func (r *REST) New() runtime.Object { return &api.Node{} }

// NewList implements rest.Lister.
func (r *REST) NewList() runtime.Object { return &api.NodeList{} }

// Destroy implements rest.Storage.
func (r *REST) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r *REST) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (r *REST) GetSingularName() string { return "node" }

// ShortNames implements rest.ShortNamesProvider.
func (r *REST) ShortNames() []string { return []string{"no"} }

// inRoot is ctx in the logical cluster of the source, and the one that asks.
func inRoot(ctx context.Context) (context.Context, logicalcluster.Name, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, "", apierrors.NewInternalError(scope.ErrNoCluster)
	}
	if c == scope.Wildcard {
		c = scope.Root // where the physical clusters are
	}
	return scope.With(ctx, scope.Scope{Cluster: scope.Root}), c, nil
}

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	root, c, err := inRoot(ctx)
	if err != nil {
		return nil, err
	}
	obj, err := r.source().Get(root, name, options)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(api.Resource("nodes"), name)
	}
	if err != nil {
		return nil, err
	}
	return convert(obj, c)
}

func convert(obj runtime.Object, c logicalcluster.Name) (*api.Node, error) {
	pc, ok := selecting.Object(obj).(*fleet.PhysicalCluster)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a physical cluster is a %T", obj))
	}
	out := &api.Node{}
	if err := legacyscheme.Scheme.Convert(nodeOf(pc, c), out, nil); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("converting node %s: %w", pc.Name, err))
	}
	return out, nil
}

// List implements rest.Lister. It ignores a limit, as a server may.
func (r *REST) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	root, c, err := inRoot(ctx)
	if err != nil {
		return nil, err
	}
	predicate, wide := split(options)
	listed, err := r.source().List(root, wide)
	if err != nil {
		return nil, err
	}
	clusters, ok := listed.(*fleet.PhysicalClusterList)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a list of physical clusters is a %T", listed))
	}
	list := &api.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: clusters.ResourceVersion}}
	for i := range clusters.Items {
		n, err := convert(&clusters.Items[i], c)
		if err != nil {
			return nil, err
		}
		match, err := predicate.Matches(n)
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("selecting nodes: %w", err))
		}
		if match {
			list.Items = append(list.Items, *n)
		}
	}
	return list, nil
}

// Watch implements rest.Watcher.
func (r *REST) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	root, c, err := inRoot(ctx)
	if err != nil {
		return nil, err
	}
	predicate, wide := split(options)
	below, err := r.source().Watch(root, wide)
	if err != nil {
		return nil, err
	}
	return selecting.Watch(below, predicate, nil, func(e watch.Event) watch.Event {
		if pc, ok := selecting.Object(e.Object).(*fleet.PhysicalCluster); ok && e.Type == watch.Bookmark {
			return watch.Event{Type: watch.Bookmark, Object: &api.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: pc.ResourceVersion, Annotations: pc.Annotations}}}
		}
		n, err := convert(e.Object, c)
		if err != nil {
			status := apierrors.NewInternalError(err).Status()
			return watch.Event{Type: watch.Error, Object: &status}
		}
		return watch.Event{Type: e.Type, Object: n}
	}), nil
}

// split takes the selectors, which are about Nodes, out of options.
func split(options *internalversion.ListOptions) (storage.SelectionPredicate, *internalversion.ListOptions) {
	label, field := labels.Everything(), fields.Everything()
	wide := &internalversion.ListOptions{}
	if options != nil {
		*wide = *options
		if options.LabelSelector != nil {
			label = options.LabelSelector
		}
		if options.FieldSelector != nil {
			field = options.FieldSelector
		}
	}
	wide.LabelSelector, wide.FieldSelector, wide.Limit, wide.Continue = nil, nil, 0, ""
	return node.MatchNode(label, field), wide
}

var errReadOnly = errors.New("the nodes of a logical cluster are the physical clusters, and only shown: an admin changes PhysicalClusters in the logical cluster root")

// Create implements rest.Creater.
func (r *REST) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	name := ""
	if n, ok := obj.(*api.Node); ok {
		name = n.Name
	}
	return nil, apierrors.NewForbidden(api.Resource("nodes"), name, errReadOnly)
}

// Update implements rest.Updater.
func (r *REST) Update(_ context.Context, name string, _ rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return nil, false, apierrors.NewForbidden(api.Resource("nodes"), name, errReadOnly)
}
