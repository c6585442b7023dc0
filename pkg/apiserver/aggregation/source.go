package aggregation

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/atoll-dev/atoll/pkg/apiserver/discovery"
)

var (
	_ discovery.Source  = &Aggregation{}
	_ discovery.Private = &Aggregation{}
)

// Private implements discovery.Private: keys name their logical cluster.
func (a *Aggregation) Private() {}

// Served implements discovery.Source.
func (a *Aggregation) Served(c logicalcluster.Name) (string, func() ([]discovery.Version, error)) {
	var out []discovery.Version
	if !a.informer.HasCluster(c) {
		return "", func() ([]discovery.Version, error) { return nil, nil }
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s", c)
	for _, s := range a.list(c) {
		v := discovery.Version{
			Group: s.Spec.Group, GroupPriority: int(s.Spec.GroupPriorityMinimum), VersionPriority: int(s.Spec.VersionPriority),
			Discovery: apidiscoveryv2.APIVersionDiscovery{Version: s.Spec.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessStale},
			Elsewhere: a.documents(s.Spec.Group, s.Spec.Version),
		}
		digest := ""
		if known := a.state(s); known != nil && known.fresh {
			v.Discovery.Freshness, v.Discovery.Resources, v.OpenAPIHash = apidiscoveryv2.DiscoveryFreshnessCurrent, known.resources, known.openAPI
			digest = known.digest + "/" + known.openAPI
		}
		fmt.Fprintf(&key, "|%s/%s/%d/%d/%s/%s", s.UID, s.Name, v.GroupPriority, v.VersionPriority, v.Discovery.Freshness, digest)
		out = append(out, v)
	}
	return key.String(), func() ([]discovery.Version, error) { return out, nil }
}

// document is what a server says of one version of a group.
type document struct {
	resources []apidiscoveryv2.APIResourceDiscovery
	digest    string
}

// readDocument reads a list of resources. A server that answers with something
// else serves nothing that could be shown; requests reach it.
func readDocument(group, version string, body []byte) document {
	list, ok := decode[metav1.APIResourceList](body)
	if !ok {
		return document{}
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if r.Group == "" {
			r.Group = group
		}
		if r.Version == "" {
			r.Version = version
		}
	}
	// The name of a resource, and that of a subresource, is a part of paths and keys; upstream's
	// conversion would show a resource without a name for the subresource "/log".
	list.APIResources = slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool {
		return slices.Contains(strings.Split(r.Name, "/"), "") || len(r.Verbs) == 0
	})
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(list.APIResources)
	if err != nil {
		return document{}
	}
	return document{resources: resources, digest: fmt.Sprintf("%x", sha256.Sum256(body))}
}

var hash = regexp.MustCompile(`^[0-9A-Za-z]{1,128}$`)

// readOpenAPIHash finds the hash of the document of path in an index of OpenAPI
// v3; empty if there is none.
func readOpenAPIHash(body []byte, path string) string {
	index, ok := decode[handler3.OpenAPIV3Discovery](body)
	if !ok {
		return ""
	}
	where, err := url.Parse(index.Paths[strings.TrimPrefix(path, "/")].ServerRelativeURL)
	if err != nil || !hash.MatchString(where.Query().Get("hash")) {
		return ""
	}
	return where.Query().Get("hash")
}
