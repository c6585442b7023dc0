package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sdiscovery "k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/atoll-dev/atoll/pkg/apiserver/crds"
	"github.com/atoll-dev/atoll/pkg/apiserver/discovery"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// served is what logical clusters serve: the same built-in and native kinds
// everywhere, and what each defines.
type served struct {
	preferred   []*metav1.APIResourceList
	mapper      meta.RESTMapper
	custom      *discovery.Documents
	definitions *crds.Definitions
}

// discover asks the server itself, with a configuration that is not scoped yet.
func discover(loopback *restclient.Config, custom *discovery.Documents, definitions *crds.Definitions) (*served, error) {
	client, err := k8sdiscovery.NewDiscoveryClientForConfig(scope.PinnedConfig(loopback, scope.Scope{Cluster: scope.Root}))
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
	return &served{preferred: preferred, mapper: restmapper.NewDiscoveryRESTMapper(groups), custom: custom, definitions: definitions}, nil
}

// resources lists each resource of a logical cluster once: those that it defines in the
// version that is stored, if that is served, all others in the preferred one. What is read and deleted as
// it is stored needs no conversion webhook, which may be gone already.
func (s *served) resources(_ context.Context, c logicalcluster.Name) ([]*metav1.APIResourceList, error) {
	custom, err := s.custom.Resources(c)
	if err != nil {
		return nil, err
	}
	return append(s.preferred[:len(s.preferred):len(s.preferred)], once(custom, func(gr schema.GroupResource) string { return s.definitions.Stored(c, gr) })...), nil
}

func (s *served) restMapper(_ context.Context, c logicalcluster.Name) (meta.RESTMapper, error) {
	custom, err := s.custom.Mapper(c)
	if err != nil {
		return nil, err
	}
	if custom == nil {
		return s.mapper, nil
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{s.mapper, custom}}, nil
}

// once leaves of lists, which are in order of preference, one mention of each resource: that of
// the version that is stored, else the first.
func once(lists []*metav1.APIResourceList, stored func(schema.GroupResource) string) []*metav1.APIResourceList {
	versions := map[schema.GroupResource]string{}
	each := func(visit func(schema.GroupVersion, metav1.APIResource)) {
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				continue // it was made from a group and a version
			}
			for _, r := range list.APIResources {
				if !strings.Contains(r.Name, "/") {
					visit(gv, r)
				}
			}
		}
	}
	each(func(gv schema.GroupVersion, r metav1.APIResource) {
		gr := gv.WithResource(r.Name).GroupResource()
		if _, ok := versions[gr]; !ok || gv.Version == stored(gr) {
			versions[gr] = gv.Version
		}
	})
	var out []*metav1.APIResourceList
	each(func(gv schema.GroupVersion, r metav1.APIResource) {
		if versions[gv.WithResource(r.Name).GroupResource()] != gv.Version {
			return
		}
		if n := len(out); n == 0 || out[n-1].GroupVersion != gv.String() {
			out = append(out, &metav1.APIResourceList{GroupVersion: gv.String()})
		}
		last := out[len(out)-1]
		last.APIResources = append(last.APIResources, r)
	})
	return out
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

// followDefined makes all follow the resources that logical clusters define; the
// result runs it.
func followDefined(definitions *crds.Definitions, all *controller.Metadata) *controller.Controller[schema.GroupVersionResource] {
	// One worker: what comes and goes does so in order.
	queue := controller.New("definedresources", 1, func(_ context.Context, gvr schema.GroupVersionResource) (controller.Result, error) {
		served := func(d *crds.Definition) bool { return d.Served() }
		if slices.ContainsFunc(definitions.Everywhere(gvr.GroupResource()), served) {
			all.Add(gvr)
		} else {
			all.Remove(gvr)
		}
		return controller.Result{}, nil
	})
	definitions.Follow(queue.Enqueue, queue.Enqueue)
	return queue
}

// defined is what logical clusters define, for placedkinds.
type defined struct{ *crds.Definitions }

// Defined implements placedkinds.Definitions.
func (d defined) Defined(c logicalcluster.Name, gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	definition, ok := d.Find(c, gr)
	if !ok || !definition.Served() {
		return nil
	}
	return definition.CustomResourceDefinition
}

// DefinedIn implements placedkinds.Definitions.
func (d defined) DefinedIn(gr schema.GroupResource) []logicalcluster.Name {
	var out []logicalcluster.Name
	for _, definition := range d.Everywhere(gr) {
		if definition.Served() {
			out = append(out, logicalcluster.From(definition))
		}
	}
	return out
}

// definitionChanged notifies of the resource of a definition that has changed.
func definitionChanged(notify func(schema.GroupResource)) func(old, now *crds.Definition) {
	return func(old, now *crds.Definition) {
		if now == nil {
			now = old
		}
		notify(now.Resource())
	}
}
