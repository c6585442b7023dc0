package syncer

import (
	"k8s.io/apimachinery/pkg/util/version"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// ordinalsSince is the first Kubernetes that cannot be had without spec.ordinals: before, a
// StatefulSet could lose the field, and run from 0.
var ordinalsSince = version.MajorMinor(1, 31)

// Features are what this syncer can do on a physical cluster of a version that others cannot.
func Features(kubernetes string) []string {
	v, err := version.ParseGeneric(kubernetes)
	if err != nil || v.LessThan(ordinalsSince) {
		return nil
	}
	return []string{fleetv1alpha1.FeatureOrdinals}
}
