package placement

import (
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Limited reports whether anything bounds what a unit takes of a physical cluster: else it
// cannot take too much.
//
//	the physical cluster has          the unit requests   then
//	a bound of namespaces             anything, nothing   yes
//	a bound of a resource             some of that        yes
//	said what is allocatable          anything            yes
//	none of these                     anything, nothing   no
func Limited(c PhysicalCluster, u Unit) bool {
	if _, ok := c.Spec.Bounds[fleetv1alpha1.BoundNamespaces]; ok {
		return true
	}
	for name, want := range u.Requests {
		if want.IsZero() {
			continue
		}
		if _, ok := c.Spec.Bounds[name]; ok || len(c.Status.Allocatable) > 0 {
			return true
		}
	}
	return false
}

// Exceeds says what of a physical cluster a unit would take more of than there is, beside
// what is assumed; nil if there is room.
func Exceeds(c PhysicalCluster, u Unit) *Rejection {
	r := newRules(u)
	for _, check := range []predicate{counted, r.bounded, r.roomy} {
		if no := check(c); no != nil {
			no.PhysicalCluster = c.Name
			return no
		}
	}
	return nil
}
