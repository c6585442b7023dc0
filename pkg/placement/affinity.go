package placement

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// NeedsOthers reports whether a policy that selects the unit relates it to other
// namespaces, which have to be read then.
func NeedsOthers(policies []Policy, u Unit) bool {
	return slices.ContainsFunc(policies, func(p Policy) bool {
		selects, err := p.selects(u)
		return (selects || err != nil) && len(p.Rules.Affinity) > 0
	})
}

// relation is one affinity: where the others are.
type relation struct {
	policy string
	with   bool
	// key is the label by which places are compared; empty: the name.
	key    string
	places map[string]bool
}

func newRelation(p Policy, a placementv1alpha1.UnitAffinity, s Snapshot, u Unit) (relation, error) {
	r := relation{policy: p.String(), with: a.Type == placementv1alpha1.AffinityWith, key: a.TopologyKey, places: map[string]bool{}}
	selector, err := metav1.LabelSelectorAsSelector(&a.NamespaceSelector)
	if err != nil {
		return r, err
	}
	on := map[string]bool{}
	for _, other := range u.Others {
		if selector.Matches(other.Labels) {
			for _, name := range other.PhysicalClusters {
				on[name] = true
			}
		}
	}
	for _, c := range s.PhysicalClusters {
		if place, ok := r.place(c); ok && on[c.Name] {
			r.places[place] = true
		}
	}
	return r, nil
}

// place is where a physical cluster is; ok is false without the label.
func (r relation) place(c PhysicalCluster) (place string, ok bool) {
	if r.key == "" {
		return c.Name, true
	}
	place, ok = c.Labels[r.key]
	return place, ok
}

// related: a physical cluster is where the others are, or where they are not. One
// without the label is nowhere.
func (r *rules) related(c PhysicalCluster) *Rejection {
	for _, to := range r.relations {
		place, ok := to.place(c)
		switch {
		case to.with && len(to.places) == 0:
			return reject(ReasonAffinity, "%s wants it beside namespaces of which none is placed yet", to.policy)
		case to.with && !(ok && to.places[place]):
			return reject(ReasonAffinity, "%s wants it beside namespaces that are elsewhere", to.policy)
		case !to.with && ok && to.places[place]:
			return reject(ReasonAntiAffinity, "%s wants it apart from a namespace that is there", to.policy)
		}
	}
	return nil
}
