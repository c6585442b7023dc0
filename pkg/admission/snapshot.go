package admission

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// snapshot assembles what Decide looks at. All of it is read from the server and
// nothing from informers: a cordon, a label or a policy that was written before the
// object, through whichever server, counts.
func (l *lookup) snapshot(ctx context.Context, cluster logicalcluster.Name, namespace *corev1.Namespace) (placement.Snapshot, placement.Unit, error) {
	s := placement.Snapshot{Now: l.clock.Now(), Watched: l.watched}
	u := placement.Unit{
		LogicalCluster: cluster, Namespace: namespace.Name, NamespaceLabels: namespace.Labels,
		Pin: namespace.Annotations[placementv1alpha1.PhysicalClusterAnnotation],
	}
	physicalClusters, err := l.client.FleetV1alpha1().PhysicalClusters().List(at(ctx, scope.Root), metav1.ListOptions{})
	if err != nil {
		return s, u, fmt.Errorf("listing physical clusters: %w", err)
	}
	all := make([]*fleetv1alpha1.PhysicalCluster, 0, len(physicalClusters.Items))
	for i := range physicalClusters.Items {
		all = append(all, &physicalClusters.Items[i])
		s.PhysicalClusters = append(s.PhysicalClusters, placement.PhysicalCluster{PhysicalCluster: all[i]})
	}
	s.CutOff = placement.CutOff(all)
	if s.Policies, err = l.policies(ctx, cluster, namespace.Name); err != nil {
		return s, u, err
	}
	if u.LogicalClusterLabels, err = l.clusterLabels(ctx, cluster); err != nil {
		return s, u, fmt.Errorf("reading logical cluster %s: %w", cluster, err)
	}
	if placement.NeedsOthers(s.Policies, u) {
		u.Others, err = l.others(ctx, cluster, namespace.Name)
	}
	return s, u, err
}

// policies are those of all levels. A tenant cannot make others wait with many: if
// there are more than are read, nothing is placed until some are deleted.
func (l *lookup) policies(ctx context.Context, cluster logicalcluster.Name, namespace string) ([]placement.Policy, error) {
	var out []placement.Policy
	client := l.client.PlacementV1alpha1()
	global, err := client.ClusterPlacementPolicies().List(at(ctx, scope.Root), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the policies of root: %w", err)
	}
	for i := range global.Items {
		out = append(out, placement.Global(&global.Items[i]))
	}
	bounded := metav1.ListOptions{Limit: placement.MaxPolicies + 1}
	if cluster != scope.Root {
		local, err := client.ClusterPlacementPolicies().List(at(ctx, cluster), bounded)
		if err != nil {
			return nil, fmt.Errorf("listing the policies of the logical cluster: %w", err)
		}
		if len(local.Items) > placement.MaxPolicies {
			return append(out, placement.TooMany(placementv1alpha1.PolicyLogicalCluster)), nil
		}
		for i := range local.Items {
			out = append(out, placement.Local(&local.Items[i]))
		}
	}
	own, err := client.PlacementPolicies(namespace).List(at(ctx, cluster), bounded)
	if err != nil {
		return nil, fmt.Errorf("listing the policies of the namespace: %w", err)
	}
	if len(own.Items) > placement.MaxPolicies {
		return append(out, placement.TooMany(placementv1alpha1.PolicyNamespace)), nil
	}
	for i := range own.Items {
		out = append(out, placement.InNamespace(&own.Items[i]))
	}
	return out, nil
}

// clusterLabels are the labels of a logical cluster; none if it has no object.
func (l *lookup) clusterLabels(ctx context.Context, cluster logicalcluster.Name) (labels.Set, error) {
	c, err := l.client.TenancyV1alpha1().LogicalClusters().Get(at(ctx, scope.Root), cluster.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Labels, nil
}

// others are the other namespaces of the logical cluster that are placed.
func (l *lookup) others(ctx context.Context, cluster logicalcluster.Name, namespace string) ([]placement.Other, error) {
	namespaces, err := l.kube.CoreV1().Namespaces().List(at(ctx, cluster), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the other namespaces: %w", err)
	}
	placements, err := l.client.PlacementV1alpha1().Placements("").List(at(ctx, cluster), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the placements of other namespaces: %w", err)
	}
	known := map[string]*corev1.Namespace{}
	for i := range namespaces.Items {
		known[namespaces.Items[i].Name] = &namespaces.Items[i]
	}
	var out []placement.Other
	for i := range placements.Items {
		p := &placements.Items[i]
		other := known[p.Namespace]
		if on := stamp.Decided(p).Names(); p.Namespace != namespace && other != nil && stamp.BelongsTo(p, other.UID) && len(on) > 0 {
			out = append(out, placement.Other{Labels: other.Labels, PhysicalClusters: on})
		}
	}
	return out, nil
}
