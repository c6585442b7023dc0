package apiserver

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Stored reads what a decision looks at as it is stored now: lists are those of the watch caches, once
// these have all that etcd has. Nobody encodes and decodes objects in between, which for a thousand
// physical clusters takes a fifth of a second. What it returns is shared, and not to be changed.
type Stored struct{ physicalClusters, clusterPolicies, policies, logicalClusters *native.REST }

// note takes the storage of a kind, if it is one of these.
func (s *Stored) note(kind string, rest *native.REST) {
	switch kind {
	case native.PhysicalCluster().Kind:
		s.physicalClusters = rest
	case native.ClusterPlacementPolicy().Kind:
		s.clusterPolicies = rest
	case native.PlacementPolicy().Kind:
		s.policies = rest
	case native.LogicalCluster().Kind:
		s.logicalClusters = rest
	}
}

// PhysicalClusters are all.
func (s *Stored) PhysicalClusters(ctx context.Context) (*fleet.PhysicalClusterList, error) {
	return listStored[*fleet.PhysicalClusterList](ctx, s.physicalClusters, scope.Root, "", 0)
}

// ClusterPolicies are those of a logical cluster; a limit of 0 is none.
func (s *Stored) ClusterPolicies(ctx context.Context, cluster logicalcluster.Name, limit int64) (*placement.ClusterPlacementPolicyList, error) {
	return listStored[*placement.ClusterPlacementPolicyList](ctx, s.clusterPolicies, cluster, "", limit)
}

// Policies are those of a namespace; a limit of 0 is none.
func (s *Stored) Policies(ctx context.Context, cluster logicalcluster.Name, namespace string, limit int64) (*placement.PlacementPolicyList, error) {
	return listStored[*placement.PlacementPolicyList](ctx, s.policies, cluster, namespace, limit)
}

// LogicalCluster is the object of one. It answers NotFound for one that has none.
func (s *Stored) LogicalCluster(ctx context.Context, name logicalcluster.Name) (*tenancy.LogicalCluster, error) {
	obj, err := s.logicalClusters.Get(within(ctx, scope.Root, ""), name.String(), &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cluster, ok := obj.(*tenancy.LogicalCluster)
	if !ok {
		return nil, fmt.Errorf("the logical cluster %s is %T", name, obj)
	}
	return cluster, nil
}

func listStored[L runtime.Object](ctx context.Context, rest *native.REST, cluster logicalcluster.Name, namespace string, limit int64) (list L, err error) {
	obj, err := rest.List(within(ctx, cluster, namespace), &metainternalversion.ListOptions{Limit: limit})
	if err != nil {
		return list, err
	}
	list, ok := obj.(L)
	if !ok {
		return list, fmt.Errorf("the list is %T", obj)
	}
	return list, nil
}

// within is a context for the storage: that of a request about a logical cluster, and a namespace.
func within(ctx context.Context, cluster logicalcluster.Name, namespace string) context.Context {
	return genericrequest.WithNamespace(scope.With(ctx, scope.Scope{Cluster: cluster}), namespace)
}
