package apiserver

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// logicalClusters makes a logical cluster usable before its creation returns.
type logicalClusters struct {
	*native.REST
	bootstrap func(context.Context, logicalcluster.Name) error
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
