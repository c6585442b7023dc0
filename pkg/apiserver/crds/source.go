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
		h.Write(d.shown[:])
	}
	return string(h.Sum(nil)), func() ([]discovery.Version, error) { return s.versions(all) }
}

// established are the definitions that discovery shows, by name.
func (s Source) established(c logicalcluster.Name) []*Definition {
	all := slices.DeleteFunc(s.Definitions.ListCluster(c), func(d *Definition) bool { return !d.Established() })
	slices.SortFunc(all, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// versions are those that the definitions have, all of which are established.
func (s Source) versions(established []*Definition) ([]discovery.Version, error) {
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
		}
		for _, d := range all {
			v.Parts = append(v.Parts, s.part(d, gv.version))
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

// part is what a definition has in the OpenAPI documents of one of its versions. It keeps
// no definition alive: of equal ones, any that is there makes the schemas.
func (s Source) part(d *Definition, version string) discovery.Part {
	shown, name := string(d.shown[:]), d.Name
	find := func() (*apiextensionsv1.CustomResourceDefinition, error) {
		all := s.Definitions.ByIndex(byShown, shown)
		if len(all) == 0 {
			return nil, fmt.Errorf("%s: %w", name, discovery.ErrGone)
		}
		return all[0].Full()
	}
	return discovery.Part{
		Key: fmt.Sprintf("%x/%s", d.shown, version), Size: d.size,
		V3: func() (*spec3.OpenAPI, error) {
			crd, err := find()
			if err != nil {
				return nil, err
			}
			s, err := builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
			if err != nil {
				return nil, fmt.Errorf("building the OpenAPI v3 schema of %s: %w", name, err)
			}
			return s, nil
		},
		V2: func() (*spec.Swagger, error) {
			crd, err := find()
			if err != nil {
				return nil, err
			}
			s, err := builder.BuildOpenAPIV2(crd, version, builder.Options{V2: true, IncludeSelectableFields: true})
			if err != nil {
				return nil, fmt.Errorf("building the OpenAPI v2 schema of %s: %w", name, err)
			}
			// The built-in definitions, with which they are merged, have no defaults.
			s.Definitions = handler.PruneDefaults(s.Definitions)
			return s, nil
		},
	}
}
