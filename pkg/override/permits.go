package override

import (
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Permits is what a physical cluster permits an object with these overrides: what it permits
// everybody, and what policies permit besides.
func Permits(everybody fleetv1alpha1.Tenancy, overrides []placementv1alpha1.TargetOverride) fleetv1alpha1.Tenancy {
	out := everybody
	for _, o := range overrides {
		if o.Permits != nil && o.Problem == "" {
			out = out.With(*o.Permits)
		}
	}
	return out
}
