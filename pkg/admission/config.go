package admission

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Config is what the plugin works with. The clients take the logical cluster
// from the context and act as the system.
type Config struct {
	Kube     kubernetes.Interface
	Client   versioned.Interface
	Metadata metadata.Interface
	Dynamic  dynamic.Interface

	Namespaces       *controller.Informer[*corev1.Namespace]
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	Placements       *controller.Informer[*placementv1alpha1.Placement]
	LogicalClusters  *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	// Policies are the ClusterPlacementPolicies.
	Policies *controller.Informer[*placementv1alpha1.ClusterPlacementPolicy]
	// NamespacePolicies are the PlacementPolicies, which make units of what they select.
	NamespacePolicies *controller.Informer[*placementv1alpha1.PlacementPolicy]
	// Copies are those of all logical clusters, with copyindex.Indexers; nil: no volume is handed
	// over.
	Copies *copyindex.Informer
	// Objects returns the metadata of all objects; nil as long as nobody follows it.
	// Default: nobody does.
	Objects func() *controller.Metadata

	// Stored returns what reads what decisions look at; nil as long as the server has none. Default, and
	// until then: Client does.
	Stored func() Stored

	// Kinds are those that have copies, or are mirrored.
	Kinds workload.Source
	// ControlPlane returns the id of the control plane.
	ControlPlane func(context.Context) (string, error)
	// Clock is the real one by default.
	Clock clock.PassiveClock
	// Standstill has for how long the process stood still; default: it never does.
	Standstill *controller.Standstill
	// Decide decides where a unit goes; default: that of pkg/placement. The
	// simulation plants mistakes here.
	Decide func(placement.Snapshot, placement.Unit) placement.Decision
}

func (c *Config) complete() error {
	switch {
	case c.Kube == nil || c.Client == nil:
		return errors.New("admission needs clients")
	case c.Namespaces == nil || c.PhysicalClusters == nil || c.Placements == nil || c.LogicalClusters == nil || c.Policies == nil || c.NamespacePolicies == nil:
		return errors.New("admission needs informers of Namespaces, PhysicalClusters, Placements, policies of both kinds and LogicalClusters")
	case c.Kinds == nil:
		return errors.New("admission needs the kinds that there are")
	case c.ControlPlane == nil:
		return errors.New("admission needs the id of the control plane")
	}
	if c.Stored == nil {
		c.Stored = func() Stored { return nil }
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Standstill == nil {
		c.Standstill = controller.NewStandstill(c.Clock)
	}
	if c.Decide == nil {
		c.Decide = placement.Decide
	}
	return nil
}

// informers are those that others run.
func (c *Config) informers() []informer {
	all := []informer{c.Namespaces, c.LogicalClusters, c.PhysicalClusters, c.Placements, c.Policies, c.NamespacePolicies}
	if c.Copies != nil {
		all = append(all, c.Copies)
	}
	return all
}
