package admission

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Stored reads what a decision looks at as it is stored now, through whichever server it was written.
// What it returns is shared, and not to be changed. A limit of 0 is none.
type Stored interface {
	// PhysicalClusters are sorted by name.
	PhysicalClusters(context.Context) ([]*fleetv1alpha1.PhysicalCluster, error)
	ClusterPolicies(ctx context.Context, cluster logicalcluster.Name, limit int64) (*placementv1alpha1.ClusterPlacementPolicyList, error)
	Policies(ctx context.Context, cluster logicalcluster.Name, namespace string, limit int64) (*placementv1alpha1.PlacementPolicyList, error)
	// Placement and LogicalCluster answer NotFound for one that there is not.
	Placement(ctx context.Context, cluster logicalcluster.Name, namespace, name string) (*placementv1alpha1.Placement, error)
	LogicalCluster(ctx context.Context, name logicalcluster.Name) (*tenancyv1alpha1.LogicalCluster, error)
}

// requested is what the API answers: each object is encoded, decoded and authorized in between.
type requested struct{ client versioned.Interface }

var _ Stored = requested{}

func (r requested) PhysicalClusters(ctx context.Context) ([]*fleetv1alpha1.PhysicalCluster, error) {
	list, err := r.client.FleetV1alpha1().PhysicalClusters().List(at(ctx, scope.Root), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]*fleetv1alpha1.PhysicalCluster, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

func (r requested) Placement(ctx context.Context, cluster logicalcluster.Name, namespace, name string) (*placementv1alpha1.Placement, error) {
	return r.client.PlacementV1alpha1().Placements(namespace).Get(at(ctx, cluster), name, metav1.GetOptions{})
}

func (r requested) ClusterPolicies(ctx context.Context, cluster logicalcluster.Name, limit int64) (*placementv1alpha1.ClusterPlacementPolicyList, error) {
	return r.client.PlacementV1alpha1().ClusterPlacementPolicies().List(at(ctx, cluster), metav1.ListOptions{Limit: limit})
}

func (r requested) Policies(ctx context.Context, cluster logicalcluster.Name, namespace string, limit int64) (*placementv1alpha1.PlacementPolicyList, error) {
	return r.client.PlacementV1alpha1().PlacementPolicies(namespace).List(at(ctx, cluster), metav1.ListOptions{Limit: limit})
}

func (r requested) LogicalCluster(ctx context.Context, name logicalcluster.Name) (*tenancyv1alpha1.LogicalCluster, error) {
	return r.client.TenancyV1alpha1().LogicalClusters().Get(at(ctx, scope.Root), name.String(), metav1.GetOptions{})
}
