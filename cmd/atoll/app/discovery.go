package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// served is what logical clusters serve. Every logical cluster serves the same
// built-in and native kinds; the lookups take the logical cluster because that
// ends with kinds that users define.
type served struct {
	preferred []*metav1.APIResourceList
	mapper    meta.RESTMapper
}

// discover asks the server itself, with a configuration that is not scoped yet.
func discover(loopback *restclient.Config) (*served, error) {
	client, err := discovery.NewDiscoveryClientForConfig(scope.PinnedConfig(loopback, scope.Scope{Cluster: scope.Root}))
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	preferred, err := client.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discovering the served resources: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("discovering the served groups: %w", err)
	}
	return &served{preferred: preferred, mapper: restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

func (s *served) resources(context.Context, logicalcluster.Name) ([]*metav1.APIResourceList, error) {
	return s.preferred, nil
}

func (s *served) restMapper(context.Context, logicalcluster.Name) (meta.RESTMapper, error) {
	return s.mapper, nil
}

// watchable are the resources whose metadata controllers follow: what can be
// listed, watched and deleted, save events, which nothing owns or is owned by.
func (s *served) watchable() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, list := range s.preferred {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // the server's own discovery is well-formed
		}
		for _, r := range list.APIResources {
			if r.Name == "events" || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			out = append(out, gv.WithResource(r.Name))
		}
	}
	return out
}
