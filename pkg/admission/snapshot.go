package admission

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// snapshot is what a decision looks at, and how its namespace is divided.
type snapshot struct {
	placement.Snapshot
	unit      placement.Unit
	selectors []units.Selector
}

// snapshot assembles what Decide looks at. All of it is read as it is stored, see Stored, and
// nothing from informers: a cordon, a label or a policy that was written before the object, through
// whichever server, counts.
func (l *lookup) snapshot(ctx context.Context, q question) (snapshot, error) {
	cluster, namespace := q.cluster, q.namespace
	s := snapshot{Snapshot: placement.Snapshot{Now: l.clock.Now(), Watched: l.watchedSince()}}
	s.unit = placement.Unit{Name: q.unit, LogicalCluster: cluster, Namespace: namespace.Name, NamespaceLabels: namespace.Labels}
	all, err := l.stored().PhysicalClusters(ctx)
	if err != nil {
		return s, fmt.Errorf("listing physical clusters: %w", err)
	}
	s.PhysicalClusters = make([]placement.PhysicalCluster, len(all))
	for i, c := range all {
		s.PhysicalClusters[i].PhysicalCluster = c
	}
	s.CutOff = placement.CutOff(all)
	own, err := l.ownPolicies(ctx, cluster, namespace.Name)
	if err != nil {
		return s, err
	}
	s.selectors = units.Selectors(own)
	if s.Policies, err = l.policies(ctx, cluster, own); err != nil {
		return s, err
	}
	if s.unit.Pin = placement.PinOf(q.unit, namespace, s.Policies); q.pin != nil {
		s.unit.Pin = *q.pin
	}
	if s.unit.LogicalClusterLabels, err = l.clusterLabels(ctx, cluster); err != nil {
		return s, fmt.Errorf("reading logical cluster %s: %w", cluster, err)
	}
	if placement.NeedsOthers(s.Policies, s.unit) {
		s.unit.Others, err = l.others(ctx, cluster, namespace.Name)
	}
	return s, err
}

// policies are those of all levels.
func (l *lookup) policies(ctx context.Context, cluster logicalcluster.Name, own []*placementv1alpha1.PlacementPolicy) ([]placement.Policy, error) {
	global, local, err := l.clusterPolicies(ctx, cluster)
	return placement.Policies(global, local, own), err
}

// clusterPolicies are those of root, and of a logical cluster one more than are heard.
func (l *lookup) clusterPolicies(ctx context.Context, cluster logicalcluster.Name) (global, local []*placementv1alpha1.ClusterPlacementPolicy, err error) {
	list, err := l.stored().ClusterPolicies(ctx, scope.Root, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the policies of root: %w", err)
	}
	for i := range list.Items {
		global = append(global, &list.Items[i])
	}
	if cluster == scope.Root {
		return global, nil, nil
	}
	if list, err = l.stored().ClusterPolicies(ctx, cluster, placement.MaxPolicies+1); err != nil {
		return nil, nil, fmt.Errorf("listing the policies of the logical cluster: %w", err)
	}
	for i := range list.Items {
		local = append(local, &list.Items[i])
	}
	return global, local, nil
}

// ownPolicies are those of a namespace, the first by name, and one more than are heard.
func (l *lookup) ownPolicies(ctx context.Context, cluster logicalcluster.Name, namespace string) ([]*placementv1alpha1.PlacementPolicy, error) {
	list, err := l.stored().Policies(ctx, cluster, namespace, placement.MaxPolicies+1)
	if err != nil {
		return nil, fmt.Errorf("listing the policies of the namespace: %w", err)
	}
	out := make([]*placementv1alpha1.PlacementPolicy, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// clusterLabels are the labels of a logical cluster; none if it has no object.
func (l *lookup) clusterLabels(ctx context.Context, cluster logicalcluster.Name) (labels.Set, error) {
	c, err := l.stored().LogicalCluster(ctx, cluster)
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
