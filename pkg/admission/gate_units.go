package admission

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// counting is one count, with what it reads once.
type counting struct {
	*gate
	request          *request
	edit             placement.Edit
	snapshot         placement.Snapshot
	physicalClusters map[string]*fleetv1alpha1.PhysicalCluster
	everywhere       []placement.PhysicalCluster
	global           []*placementv1alpha1.ClusterPlacementPolicy
	local            func(logicalcluster.Name) []*placementv1alpha1.ClusterPlacementPolicy
	impact           *impact
}

// count looks at the units that an edit concerns, with the code that says whether one moves.
// Policies of the level of the edit and above are read from the server, all else is what
// informers have.
func (g *gate) count(ctx context.Context, r *request, edit placement.Edit) (*impact, error) {
	global, local, err := g.lookup.clusterPolicies(ctx, r.cluster)
	if err != nil {
		return nil, err
	}
	release, err := g.counts.acquire(ctx, r.cluster)
	if err != nil {
		return nil, err
	}
	defer release()
	all := g.lookup.physicalClusters.List()
	c := &counting{
		gate: g, request: r, edit: edit, global: global, physicalClusters: make(map[string]*fleetv1alpha1.PhysicalCluster, len(all)),
		snapshot: placement.Snapshot{Now: g.lookup.clock.Now(), Watched: g.lookup.watchedSince(), CutOff: placement.CutOff(all)},
		local:    func(logicalcluster.Name) []*placementv1alpha1.ClusterPlacementPolicy { return local },
		impact:   &impact{radius: placement.NewRadius(edit, placement.Policies(global, local, nil))},
	}
	for _, pc := range all {
		c.physicalClusters[pc.Name] = pc
		c.everywhere = append(c.everywhere, placement.PhysicalCluster{PhysicalCluster: pc})
	}
	for _, p := range c.placements() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.unit(p, p.Name)
	}
	c.made()
	return c.impact, nil
}

// placements are those that the edit may concern.
func (c *counting) placements() []*placementv1alpha1.Placement {
	switch r := c.request; {
	case r.groupResource() == namespacePoliciesResource:
		return c.lookup.placements.ListNamespace(r.cluster, r.GetNamespace())
	case r.cluster != scope.Root:
		return c.lookup.placements.ListCluster(r.cluster)
	default:
		c.local = c.policies.ListCluster
		return c.lookup.placements.List()
	}
}

// unit counts the unit of a name, which is where a placement says, if the edit moves it.
func (c *counting) unit(p *placementv1alpha1.Placement, name string) {
	key := controller.RequestFor(p)
	namespace, ok := c.lookup.namespaces.Get(controller.Request{Cluster: key.Cluster, Name: key.Namespace})
	decided := stamp.Decided(p).Names()
	if !ok || len(decided) == 0 || namespace.DeletionTimestamp != nil || !stamp.BelongsTo(p, namespace.UID) {
		return
	}
	u := placement.Unit{
		Name: name, LogicalCluster: key.Cluster, Namespace: key.Namespace, NamespaceLabels: namespace.Labels, Decided: decided,
	}
	if lc, ok := c.lookup.logicalClusters.Get(controller.Request{Cluster: scope.Root, Name: key.Cluster.String()}); ok {
		u.LogicalClusterLabels = lc.Labels
	}
	if !c.edit.Concerns(u) {
		return
	}
	u.Bound, u.BoundBy = placement.BoundOf(p)
	s := c.snapshot
	s.Policies = placement.Policies(c.global, c.local(key.Cluster), c.own.ListNamespace(key.Cluster, key.Namespace))
	u.Pin = placement.PinOf(name, namespace, s.Policies)
	for _, on := range decided {
		if pc, ok := c.physicalClusters[on]; ok {
			s.PhysicalClusters = append(s.PhysicalClusters, placement.PhysicalCluster{PhysicalCluster: pc})
		}
	}
	var home []string
	if whole, ok := c.lookup.placements.Get(controller.Request{Cluster: key.Cluster, Namespace: key.Namespace, Name: placementv1alpha1.NamespaceUnit}); ok {
		home = stamp.Decided(whole).Names()
	}
	moves := c.edit.Moves(s, u, home)
	s.PhysicalClusters = c.everywhere
	if moves || c.edit.Returns(s, u) {
		pods, known := c.pods(key, name)
		c.impact.add(c.request, u, pods, known)
	}
}

// made counts a unit that the edit makes of what runs with its namespace.
func (c *counting) made() {
	new := c.edit.New
	if new == nil || new.Unit == "" {
		return
	}
	key := controller.Request{Cluster: c.request.cluster, Namespace: c.request.GetNamespace(), Name: new.Unit}
	if _, there := c.lookup.placements.Get(key); there {
		return
	}
	whole, ok := c.lookup.placements.Get(controller.Request{Cluster: key.Cluster, Namespace: key.Namespace, Name: placementv1alpha1.NamespaceUnit})
	if ok && c.selects(key) {
		c.unit(whole, new.Unit)
	}
}

// selects says that the policy of a unit that is made selects something.
func (c *counting) selects(key controller.Request) bool {
	objects := c.objects()
	for _, kind := range c.request.kinds.Kinds() {
		if objects == nil || kind.Role != workload.Placed || kind.Follows() {
			continue
		}
		if informer := placed.Of(objects, kind); informer != nil {
			for _, o := range informer.ListNamespace(key.Cluster, key.Namespace) {
				if !stamp.Mirrored(o) && c.isIn(kind, o, key.Name) {
					return true
				}
			}
		}
	}
	return false
}

// isIn says that an object is in a unit, or comes into it by the edit.
func (c *counting) isIn(kind workload.Kind, o *metav1.PartialObjectMetadata, unit string) bool {
	if policy, ok := c.request.GetObject().(*placementv1alpha1.PlacementPolicy); ok && policy.Name == unit {
		selected, _ := units.Selected(units.Selectors([]*placementv1alpha1.PlacementPolicy{policy}), kind, o)
		return selected == unit
	}
	return stamp.IsIn(o, []string{unit})
}

func (c *counting) objects() *controller.Metadata {
	if c.lookup.objects == nil {
		return nil
	}
	return c.lookup.objects()
}

var podKind = schema.GroupKind{Kind: "Pod"}

// maxOwners bounds how many controllers of a pod are asked for: a CronJob makes a Job,
// which makes it.
const maxOwners = 4

// pods counts those of a unit: what is at the end of their controllers is in it.
func (c *counting) pods(key controller.Request, unit string) (n int, known bool) {
	objects := c.objects()
	kind, ok := c.request.kinds.ByKind(podKind)
	if objects == nil || !ok || objects.For(kind.GroupVersionResource()) == nil {
		return 0, false
	}
	for _, pod := range objects.For(kind.GroupVersionResource()).ListNamespace(key.Cluster, key.Namespace) {
		of, o := kind, pod
		for range maxOwners {
			owner := metav1.GetControllerOfNoCopy(o)
			if owner == nil {
				break
			}
			above, ok := c.request.kinds.ByKind(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
			if !ok || objects.For(above.GroupVersionResource()) == nil {
				break
			}
			made, ok := objects.For(above.GroupVersionResource()).Get(controller.Request{Cluster: key.Cluster, Namespace: key.Namespace, Name: owner.Name})
			if !ok || made.UID != owner.UID {
				break
			}
			of, o = above, made
		}
		if c.isIn(of, o, unit) {
			n++
		}
	}
	return n, true
}
