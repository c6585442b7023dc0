// Package install registers Atoll's own API groups with a scheme of the server.
//
// The Go types of v1alpha1 are registered for the internal version, too, which
// upstream's request handlers use as the hub of conversions: while there is one
// version there is nothing to convert. See docs/decisions/0003-native-api.md.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

type group struct {
	version schema.GroupVersion
	add     func(*runtime.Scheme) error
	types   []runtime.Object
}

func groups() []group {
	return []group{
		{tenancyv1alpha1.SchemeGroupVersion, tenancyv1alpha1.AddToScheme, tenancyv1alpha1.Types()},
		{fleetv1alpha1.SchemeGroupVersion, fleetv1alpha1.AddToScheme, fleetv1alpha1.Types()},
		{placementv1alpha1.SchemeGroupVersion, placementv1alpha1.AddToScheme, placementv1alpha1.Types()},
	}
}

// Install registers all groups; it panics on a programming error.
func Install(scheme *runtime.Scheme) {
	for _, g := range groups() {
		utilruntime.Must(g.add(scheme))
		scheme.AddKnownTypes(schema.GroupVersion{Group: g.version.Group, Version: runtime.APIVersionInternal}, g.types...)
		utilruntime.Must(scheme.SetVersionPriority(g.version))
	}
}

// GroupVersions are the versions that the server serves.
func GroupVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, g := range groups() {
		out = append(out, g.version)
	}
	return out
}
