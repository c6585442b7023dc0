package placement

import (
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Snapshot is what is known when a unit is decided. Decide does not change it.
type Snapshot struct {
	PhysicalClusters []PhysicalCluster
	Policies         []Policy
	// Now is the time that taints with a time are held against; zero: none is over.
	Now time.Time
	// Watched is since when this server has watched for heartbeats: silence from before
	// counts from then.
	Watched time.Time
	// CutOff says that silence counts for nothing, see CutOff.
	CutOff bool
}

// PhysicalCluster is a candidate.
type PhysicalCluster struct {
	*fleetv1alpha1.PhysicalCluster
	// Assumed is what units decided lately will request and the physical cluster
	// does not report yet.
	Assumed corev1.ResourceList
	// Placements counts the units that are on it.
	Placements int
	// LetIn is what these count for by what the server itself knows, whatever the physical cluster
	// reports: see Counted.
	LetIn corev1.ResourceList
}

// Assume adds requests to those that are assumed.
func (c *PhysicalCluster) Assume(requests corev1.ResourceList) {
	c.Assumed = Sum(c.Assumed, requests)
}

// Assume notes in a snapshot what a review supposes that others have taken.
func Assume(s Snapshot, supposed []placementv1alpha1.AssumedRequests) {
	if len(supposed) == 0 {
		return
	}
	taken := make(map[string]placementv1alpha1.AssumedRequests, len(supposed))
	for _, a := range supposed {
		taken[a.PhysicalCluster] = a
	}
	for i := range s.PhysicalClusters {
		c := &s.PhysicalClusters[i]
		a := taken[c.Name]
		c.Placements += int(a.Units)
		c.Assume(a.Requests)
		if a.Units > 0 { // else they may be decided, and let in
			c.LetIn = Sum(c.LetIn, a.Requests)
		}
	}
}

// Unit is what is placed as a whole: a namespace, or what a policy selects in it.
type Unit struct {
	// Name is that of the Placement; empty: that of a namespace.
	Name                 string
	LogicalCluster       logicalcluster.Name
	LogicalClusterLabels labels.Set
	Namespace            string
	NamespaceLabels      labels.Set
	// Pin names the one physical cluster that the user wants; empty: any.
	Pin string
	// Others are the other namespaces of the logical cluster that are placed. They are
	// needed only if a policy asks for them, see NeedsOthers.
	Others []Other
	// Decided are the physical clusters of the decision that is in force.
	Decided []string
	// Returning says that what the unit has comes after preferences, and Awaited, which it
	// waits to return to, comes then; see Preferred.
	Returning bool
	Awaited   []string
	// Bound is where the scheduler BoundBy wants the unit.
	Bound   []string
	BoundBy string
	Needs
	// PriorityClasses has, by the name in pods and the physical cluster, the PriorityClasses to which
	// that maps it; none: its pods get what others get that name none.
	PriorityClasses map[string]map[string][]string
	// NotPermitted says by physical cluster what of the objects it does not permit.
	NotPermitted map[string]string
}

// Other is another namespace of the same logical cluster, with where it is placed.
type Other struct {
	Labels           labels.Set
	PhysicalClusters []string
}

// Needs are what objects need together, wherever they are. Names are sorted, each once.
type Needs struct {
	// Requests are those of the pods in sum.
	Requests corev1.ResourceList
	// APIs are as workload.Kind.API, StorageClasses as workload.StorageClasses, RuntimeHandlers as
	// admission notes them, IngressClasses as Ingresses name them.
	APIs            []string
	StorageClasses  []string
	RuntimeHandlers []string
	IngressClasses  []string
}

// Include adds the needs of an object to those of its unit.
func (n *Needs) Include(more Needs) {
	for _, l := range []struct {
		to   *[]string
		more []string
	}{
		{&n.APIs, more.APIs}, {&n.StorageClasses, more.StorageClasses}, {&n.RuntimeHandlers, more.RuntimeHandlers},
		{&n.IngressClasses, more.IngressClasses},
	} {
		*l.to = sorted(append(slices.Clone(*l.to), l.more...))
	}
	n.Requests = Sum(n.Requests, more.Requests)
}

// Prioritize adds that a physical cluster maps the name of a priority class to one of its own.
func (u *Unit) Prioritize(name, physicalCluster, class string) {
	if u.PriorityClasses == nil {
		u.PriorityClasses = map[string]map[string][]string{}
	}
	if u.PriorityClasses[name] == nil {
		u.PriorityClasses[name] = map[string][]string{}
	}
	on := u.PriorityClasses[name]
	on[physicalCluster] = sorted(append(slices.Clone(on[physicalCluster]), class))
}

// Sum adds up requests, and changes none of them.
func Sum(a, b corev1.ResourceList) corev1.ResourceList {
	sum := a.DeepCopy()
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	for name, quantity := range b {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
	return sum
}

func sorted(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}
