package syncer

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// ordinalsSince is the first Kubernetes that cannot be had without spec.ordinals: before, a
// StatefulSet could lose the field, and run from 0.
var ordinalsSince = version.MajorMinor(1, 31)

// Features are what this syncer can do on a physical cluster of a version that others cannot.
func Features(kubernetes string) []string {
	features := []string{fleetv1alpha1.FeatureManifests}
	if v, err := version.ParseGeneric(kubernetes); err == nil && !v.LessThan(ordinalsSince) {
		features = append(features, fleetv1alpha1.FeatureOrdinals)
	}
	return features
}

// LacksManifests says that the syncer of a physical cluster is from before Manifests: it does not see them.
// Of one that has not reported yet that is not known.
func LacksManifests(status fleetv1alpha1.PhysicalClusterStatus) bool {
	return status.Version != "" && !slices.Contains(status.Features, fleetv1alpha1.FeatureManifests)
}
