package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Stored reads what a decision looks at as it is stored now: lists are those of the watch caches, once
// these have all that etcd has. Nobody encodes and decodes objects in between, which for a thousand
// physical clusters takes a fifth of a second. What it returns is shared, and not to be changed.
type Stored struct {
	physicalClusters, clusterPolicies, policies, placements, logicalClusters *native.REST
	// listed are the physical clusters that were listed last.
	listed atomic.Pointer[listed]
}

// note takes the storage of a kind, if it is one of these.
func (s *Stored) note(kind string, rest *native.REST) {
	switch kind {
	case native.PhysicalCluster().Kind:
		s.physicalClusters = rest
	case native.ClusterPlacementPolicy().Kind:
		s.clusterPolicies = rest
	case native.PlacementPolicy().Kind:
		s.policies = rest
	case native.Placement().Kind:
		s.placements = rest
	case native.LogicalCluster().Kind:
		s.logicalClusters = rest
	}
}

// PhysicalClusters are all, by name. What has not changed since the last list is not copied again: a copy of a
// thousand costs more than a decision among them.
func (s *Stored) PhysicalClusters(ctx context.Context) ([]*fleet.PhysicalCluster, error) {
	last := s.listed.Load()
	if last == nil {
		last = &listed{}
	}
	changed := storage.NewChanged(last.versions)
	list, err := listStored[*fleet.PhysicalClusterList](ctx, s.physicalClusters, scope.Root, "", &metainternalversion.ListOptions{FieldSelector: changed})
	if err != nil {
		return nil, err
	}
	if now := last.but(changed, list.Items); now != last {
		// Another request may have stored what is newer, or older: either differs from the next list by what changed.
		s.listed.Store(now)
		return now.objects, nil
	}
	return last.objects, nil
}

// listed are physical clusters by name, and their versions.
type listed struct {
	objects  []*fleet.PhysicalCluster
	versions []storage.Version
}

// but is what there is since some have changed or gone; l itself if none has.
func (l *listed) but(changed *storage.Changed, items []fleet.PhysicalCluster) *listed {
	now := listed{objects: make([]*fleet.PhysicalCluster, 0, len(l.objects)+len(items))}
	for i, c := range l.objects {
		if changed.As(i) {
			now.objects = append(now.objects, c)
		}
	}
	if len(items) == 0 && len(now.objects) == len(l.objects) {
		return l
	}
	for i := range items {
		now.objects = append(now.objects, &items[i])
	}
	slices.SortFunc(now.objects, func(a, b *fleet.PhysicalCluster) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range now.objects {
		now.versions = append(now.versions, storage.Version{Name: c.Name, ResourceVersion: c.ResourceVersion})
	}
	return &now
}

// ClusterPolicies are those of a logical cluster; a limit of 0 is none.
func (s *Stored) ClusterPolicies(ctx context.Context, cluster logicalcluster.Name, limit int64) (*placement.ClusterPlacementPolicyList, error) {
	return listStored[*placement.ClusterPlacementPolicyList](ctx, s.clusterPolicies, cluster, "", &metainternalversion.ListOptions{Limit: limit})
}

// Policies are those of a namespace; a limit of 0 is none.
func (s *Stored) Policies(ctx context.Context, cluster logicalcluster.Name, namespace string, limit int64) (*placement.PlacementPolicyList, error) {
	return listStored[*placement.PlacementPolicyList](ctx, s.policies, cluster, namespace, &metainternalversion.ListOptions{Limit: limit})
}

// Placement answers NotFound for one that there is not.
func (s *Stored) Placement(ctx context.Context, cluster logicalcluster.Name, namespace, name string) (*placement.Placement, error) {
	return getStored[*placement.Placement](ctx, s.placements, cluster, namespace, name)
}

// LogicalCluster is the object of one. It answers NotFound for one that has none.
func (s *Stored) LogicalCluster(ctx context.Context, name logicalcluster.Name) (*tenancy.LogicalCluster, error) {
	return getStored[*tenancy.LogicalCluster](ctx, s.logicalClusters, scope.Root, "", name.String())
}

func getStored[T runtime.Object](ctx context.Context, rest *native.REST, cluster logicalcluster.Name, namespace, name string) (out T, err error) {
	obj, err := rest.Get(within(ctx, cluster, namespace), name, &metav1.GetOptions{})
	if err != nil {
		return out, err
	}
	out, ok := obj.(T)
	if !ok {
		return out, fmt.Errorf("%s is %T", name, obj)
	}
	return out, nil
}

func listStored[L runtime.Object](ctx context.Context, rest *native.REST, cluster logicalcluster.Name, namespace string, options *metainternalversion.ListOptions) (list L, err error) {
	obj, err := rest.List(within(ctx, cluster, namespace), options)
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
