package placedkinds

import (
	"strings"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/pkg/workload/declared"
)

// Definitions are what logical clusters define.
type Definitions interface {
	// Defined is the definition of a resource in a logical cluster, nil if there is none, or
	// none that is served.
	Defined(cluster logicalcluster.Name, gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition
	// DefinedIn are the logical clusters that define a resource.
	DefinedIn(gr schema.GroupResource) []logicalcluster.Name
}

// Catalog is the kinds of a server. It implements workload.Local.
type Catalog struct {
	base     workload.Catalog
	kinds    *controller.Informer[*fleetv1alpha1.PlacedKind]
	clusters *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	*controller.Variable[workload.Catalog]

	mu          sync.Mutex
	definitions Definitions
	refused     map[string]declared.Refusal
	// of are the catalogs of logical clusters that serve some of the declared kinds, by their
	// names; they belong to the catalog now.
	now workload.Catalog
	of  map[string]workload.Catalog
}

// NewCatalog makes the catalog of what the informers have, and keeps it from then on.
func NewCatalog(base workload.Catalog) *Catalog {
	return &Catalog{base: base, Variable: controller.NewVariable(base)}
}

// Follow has the informers say what is declared, from now on.
func (c *Catalog) Follow(kinds *controller.Informer[*fleetv1alpha1.PlacedKind], clusters *controller.Informer[*tenancyv1alpha1.LogicalCluster]) {
	c.mu.Lock()
	c.kinds, c.clusters = kinds, clusters
	c.mu.Unlock()
	kinds.Handle(func(_, _ *fleetv1alpha1.PlacedKind) { c.declare() })
}

// Consult has definitions say what logical clusters serve. Before it, they serve nothing
// that is declared.
func (c *Catalog) Consult(definitions Definitions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.definitions = definitions
}

// declare makes the catalog anew. One that says the same is the same.
func (c *Catalog) declare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, refused := declared.Catalog(c.base, c.kinds.List())
	c.refused = refused
	if came, gone := next.Since(c.Current()); len(came)+len(gone) > 0 {
		c.Set(next)
	}
}

// Refusal is why a declaration is not in the catalog.
func (c *Catalog) Refusal(name string) (declared.Refusal, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.refused[name]
	return r, ok
}

// In implements workload.Local.
func (c *Catalog) In(cluster logicalcluster.Name) workload.Catalog {
	all := c.Current()
	kinds := all.Declared()
	if len(kinds) == 0 {
		return all
	}
	var served []workload.Kind
	var names []string
	for _, kind := range kinds {
		if d := c.defined(cluster, kind.GroupResource()); d != nil && declared.Serves(kind, d) {
			served, names = append(served, kind), append(names, kind.GroupResource().String())
		}
	}
	switch len(served) {
	case len(kinds):
		return all
	case 0:
		return all.Undeclared()
	}
	return c.some(all, served, strings.Join(names, " "))
}

// some is a catalog with some of the declared kinds, made once.
func (c *Catalog) some(all workload.Catalog, kinds []workload.Kind, names string) workload.Catalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != all || c.of == nil {
		c.now, c.of = all, map[string]workload.Catalog{}
	}
	some, ok := c.of[names]
	if !ok {
		some, _ = all.Undeclared().With(kinds...) // each of them was accepted with more
		c.of[names] = some
	}
	return some
}

// Places implements workload.Local: see the table of docs/decisions/0051.
func (c *Catalog) Places(cluster logicalcluster.Name, kind workload.Kind) bool {
	return c.selects(cluster, kind) && declared.Problem(kind, c.defined(cluster, kind.GroupResource())) == ""
}

// selects says that a declaration, which is not on its way out, selects a logical cluster.
func (c *Catalog) selects(cluster logicalcluster.Name, kind workload.Kind) bool {
	c.mu.Lock()
	kinds, clusters := c.kinds, c.clusters
	c.mu.Unlock()
	if kinds == nil || cluster == scope.Root {
		return false
	}
	p, ok := kinds.Get(controller.Request{Cluster: scope.Root, Name: kind.GroupResource().String()})
	if !ok || p.DeletionTimestamp != nil {
		return false
	}
	of, ok := clusters.Get(controller.Request{Cluster: scope.Root, Name: cluster.String()})
	if !ok {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.LogicalClusters)
	return err == nil && selector.Matches(labels.Set(of.Labels))
}

func (c *Catalog) defined(cluster logicalcluster.Name, gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	c.mu.Lock()
	definitions := c.definitions
	c.mu.Unlock()
	if definitions == nil {
		return nil
	}
	return definitions.Defined(cluster, gr)
}
