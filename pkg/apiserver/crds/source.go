package crds

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sdiscovery "k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/atoll-dev/atoll/pkg/apiserver/discovery"
)

// Priorities of what definitions define, as upstream's.
const (
	groupPriority   = 1000
	versionPriority = 100
)

// Source tells discovery what is defined.
type Source struct{ Definitions *Definitions }

var _ discovery.Source = Source{}

// Served implements discovery.Source.
func (s Source) Served(c logicalcluster.Name) (string, func() ([]discovery.Version, error)) {
	all := s.established(c)
	if len(all) == 0 {
		return "", func() ([]discovery.Version, error) { return nil, nil }
	}
	h := sha256.New()
	for _, d := range all {
		h.Write([]byte(d.Name))
		h.Write(d.Shape[:])
	}
	return string(h.Sum(nil)), func() ([]discovery.Version, error) { return versions(all) }
}

// established are the definitions that discovery shows, by name.
func (s Source) established(c logicalcluster.Name) []*Definition {
	all := slices.DeleteFunc(s.Definitions.ListCluster(c), func(d *Definition) bool { return !d.Established() })
	slices.SortFunc(all, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// versions are those that the definitions have, all of which are established.
func versions(established []*Definition) ([]discovery.Version, error) {
	type groupVersion struct{ group, version string }
	members := map[groupVersion][]*Definition{}
	var order []groupVersion
	for _, d := range established {
		for _, v := range d.Spec.Versions {
			if !v.Served {
				continue
			}
			gv := groupVersion{d.Spec.Group, v.Name}
			if members[gv] == nil {
				order = append(order, gv)
			}
			members[gv] = append(members[gv], d)
		}
	}
	var out []discovery.Version
	for _, gv := range order {
		all := members[gv]
		v := discovery.Version{
			Group: gv.group, GroupPriority: groupPriority, VersionPriority: versionPriority,
			Discovery:     apidiscoveryv2.APIVersionDiscovery{Version: gv.version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent},
			StorageHashes: map[string]string{},
			OpenAPIV3:     func() (*spec3.OpenAPI, error) { return openAPIV3(all, gv.version) },
			OpenAPIV2:     func() (*spec.Swagger, error) { return openAPIV2(all, gv.version) },
		}
		for _, d := range all {
			r, err := resource(d.CustomResourceDefinition, gv.version)
			if err != nil {
				return nil, err
			}
			v.Discovery.Resources = append(v.Discovery.Resources, r)
			if stored, err := apihelpers.GetCRDStorageVersion(d.CustomResourceDefinition); err == nil {
				v.StorageHashes[r.Resource] = k8sdiscovery.StorageVersionHash(gv.group, stored, d.Spec.Names.Kind)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

func resource(crd *apiextensionsv1.CustomResourceDefinition, version string) (apidiscoveryv2.APIResourceDiscovery, error) {
	names := crd.Status.AcceptedNames
	kind := &metav1.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: names.Kind}
	r := apidiscoveryv2.APIResourceDiscovery{
		Resource: names.Plural, SingularResource: names.Singular, ResponseKind: kind, Scope: apidiscoveryv2.ScopeCluster,
		Verbs:      metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
		ShortNames: names.ShortNames, Categories: names.Categories,
	}
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		r.Scope = apidiscoveryv2.ScopeNamespace
	}
	if apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		r.Verbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	}
	sub, err := apihelpers.GetSubresourcesForVersion(crd, version)
	if err != nil {
		return r, fmt.Errorf("reading the subresources of %s: %w", crd.Name, err)
	}
	verbs := metav1.Verbs{"get", "patch", "update"}
	if sub != nil && sub.Status != nil {
		r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: "status", ResponseKind: kind, Verbs: verbs})
	}
	if sub != nil && sub.Scale != nil {
		scale := metav1.GroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: "scale", ResponseKind: &scale, Verbs: verbs})
	}
	return r, nil
}

func openAPIV3(all []*Definition, version string) (*spec3.OpenAPI, error) {
	var parts []*spec3.OpenAPI
	for _, d := range all {
		part, err := builder.BuildOpenAPIV3(d.CustomResourceDefinition, version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			return nil, fmt.Errorf("building the OpenAPI v3 schema of %s: %w", d.Name, err)
		}
		parts = append(parts, part)
	}
	merged, err := builder.MergeSpecsV3(parts...)
	if err != nil {
		return nil, fmt.Errorf("merging OpenAPI v3 schemas: %w", err)
	}
	return merged, nil
}

func openAPIV2(all []*Definition, version string) (*spec.Swagger, error) {
	merged := &spec.Swagger{}
	for _, d := range all {
		part, err := builder.BuildOpenAPIV2(d.CustomResourceDefinition, version, builder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			return nil, fmt.Errorf("building the OpenAPI v2 schema of %s: %w", d.Name, err)
		}
		// The built-in definitions, with which they are merged, have no defaults.
		part.Definitions = handler.PruneDefaults(part.Definitions)
		if merged, err = builder.MergeSpecs(merged, part); err != nil {
			return nil, fmt.Errorf("merging OpenAPI v2 schemas: %w", err)
		}
	}
	return merged, nil
}
