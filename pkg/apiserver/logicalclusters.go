package apiserver

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// logicalClusters makes a logical cluster usable before its creation returns.
type logicalClusters struct {
	*native.REST
	bootstrap func(context.Context, logicalcluster.Name) error
	// physical are the PhysicalClusters.
	physical *native.REST
}

// Create stores the object, then makes the first objects inside. If that fails
// the object stays, and the controller tries again: the answer says so.
func (l *logicalClusters) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	created, err := l.REST.Create(ctx, obj, validate, options)
	if err != nil || dryrun.IsDryRun(options.DryRun) || l.bootstrap == nil {
		return created, err
	}
	cluster := created.(*tenancy.LogicalCluster)
	if err := l.bootstrap(ctx, logicalcluster.Name(cluster.Name)); err != nil {
		warning.AddWarning(ctx, "", fmt.Sprintf("logical cluster %q is stored, its first objects are not all made yet: %v", cluster.Name, err))
		return created, nil
	}
	root := scope.WithCluster(ctx, scope.Root)
	if fresh, err := l.REST.Get(root, cluster.Name, &metav1.GetOptions{}); err == nil {
		return fresh, nil
	}
	return created, nil
}

// find returns the logical cluster of this name, if it is the one that is meant,
// or nil: as the watch cache knows it, or etcd.
func (l *logicalClusters) find(ctx context.Context, name logicalcluster.Name, meant func(*tenancy.LogicalCluster) bool) (*tenancy.LogicalCluster, error) {
	root := scope.With(ctx, scope.Scope{Cluster: scope.Root})
	for _, options := range []metav1.GetOptions{{ResourceVersion: "0"}, {}} {
		obj, err := l.REST.Get(root, name.String(), &options)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if cluster, ok := obj.(*tenancy.LogicalCluster); ok && err == nil && meant(cluster) {
			return cluster, nil
		}
	}
	return nil, nil
}

func (l *logicalClusters) exists(ctx context.Context, name logicalcluster.Name) (bool, error) {
	cluster, err := l.find(ctx, name, func(*tenancy.LogicalCluster) bool { return true })
	return cluster != nil, err
}

// bounds are those of a physical cluster, as the watch cache knows it; nil means that there are none.
func (l *logicalClusters) bounds(ctx context.Context, name string) corev1.ResourceList {
	obj, err := l.physical.Get(scope.With(ctx, scope.Scope{Cluster: scope.Root}), name, &metav1.GetOptions{ResourceVersion: "0"})
	if pc, ok := obj.(*fleet.PhysicalCluster); ok && err == nil {
		return pc.Spec.Bounds
	}
	return nil
}

type registeredFunc func(context.Context, string, func(*fleet.PhysicalCluster) bool) (*fleet.PhysicalCluster, error)

// registered is the PhysicalCluster of this name for which meant holds, if there is one, else any
// of the name, or nil: as the watch cache knows it, or etcd. That the watch cache has another one,
// or none, decides nothing.
func (l *logicalClusters) registered(ctx context.Context, name string, meant func(*fleet.PhysicalCluster) bool) (found *fleet.PhysicalCluster, err error) {
	root := scope.With(ctx, scope.Scope{Cluster: scope.Root})
	for _, options := range []metav1.GetOptions{{ResourceVersion: "0"}, {}} {
		obj, err := l.physical.Get(root, name, &options)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		found = nil
		if pc, ok := obj.(*fleet.PhysicalCluster); ok && err == nil {
			if found = pc; meant(pc) {
				return pc, nil
			}
		}
	}
	return found, nil
}

type livesFunc func(context.Context, logicalcluster.Name, types.UID) (bool, error)

// lives says whether the logical cluster of this name is the one with this UID.
func (l *logicalClusters) lives(ctx context.Context, name logicalcluster.Name, uid types.UID) (bool, error) {
	cluster, err := l.find(ctx, name, func(c *tenancy.LogicalCluster) bool { return c.UID == uid })
	return cluster != nil, err
}
