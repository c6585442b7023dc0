package declared

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// Problem says why objects of a declared kind are not placed where a definition says what
// they are; empty if they may be.
//
// The system reads objects as they are stored. With a webhook that converts, what is
// stored in one version is not what it is in another: there is no other version then.
func Problem(kind workload.Kind, definition *apiextensionsv1.CustomResourceDefinition) string {
	if definition == nil {
		return "it is not defined"
	}
	spec := definition.Spec
	at := slices.IndexFunc(spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == kind.Version && v.Served
	})
	switch {
	case spec.Scope != apiextensionsv1.NamespaceScoped:
		return "it is not namespaced, and only what is in a namespace is placed"
	case spec.Names.Kind != kind.Kind:
		return fmt.Sprintf("its kind is %s, not %s", spec.Names.Kind, kind.Kind)
	case at < 0:
		return fmt.Sprintf("it does not serve version %s", kind.Version)
	case !kind.Status.None && (spec.Versions[at].Subresources == nil || spec.Versions[at].Subresources.Status == nil):
		return fmt.Sprintf("version %s has no subresource status, which the copies write; declare status.source %s if there is no status", kind.Version, "LogicalCluster")
	case converts(definition) && storesAnother(kind.Version, definition):
		return fmt.Sprintf("objects are stored in other versions than %s, which only its conversion webhook can read", kind.Version)
	}
	return ""
}

// Serves says that a definition serves objects as they are declared, whether they are
// placed or not.
func Serves(kind workload.Kind, definition *apiextensionsv1.CustomResourceDefinition) bool {
	return definition.Spec.Scope == apiextensionsv1.NamespaceScoped &&
		slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == kind.Version && v.Served
		})
}

func converts(definition *apiextensionsv1.CustomResourceDefinition) bool {
	c := definition.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter
}

func storesAnother(version string, definition *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage && v.Name != version }) ||
		slices.ContainsFunc(definition.Status.StoredVersions, func(v string) bool { return v != version })
}
