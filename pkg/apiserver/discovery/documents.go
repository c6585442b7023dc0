package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/restmapper"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
)

const (
	// maxDocuments is what the different sets of groups may weigh that are kept ready,
	// weightAlways and weightEach what one of them weighs, and each of its resources.
	maxDocuments             = 64 << 20
	weightAlways, weightEach = 256 << 10, 8 << 10

	aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// Documents has what each logical cluster serves beside the built-in groups.
type Documents struct {
	server     *genericapiserver.GenericAPIServer
	openAPI    *openAPI
	serializer runtime.NegotiatedSerializer
	sources    []Source
	ready      *weighed.Cache[string, *document] // by place

	builtin func() ([]apidiscoveryv2.APIGroupDiscovery, error)
}

// New makes the documents of the server's built-in groups and of sources; of two
// that have the same version of a group, the first wins.
func New(server *genericapiserver.GenericAPIServer, openAPI *BuiltinOpenAPI, sources ...Source) *Documents {
	d := &Documents{
		server: server, openAPI: newOpenAPI(openAPI), serializer: server.Serializer, sources: sources,
		ready: weighed.New[string](maxDocuments, (*document).weight),
	}
	d.builtin = sync.OnceValues(d.readBuiltin) // all are installed before the first request
	return d
}

// document is what is served for one key.
type document struct {
	key        string
	versions   map[string]Version // by group/version
	groups     map[string]metav1.APIGroup
	order      []string // of groups
	aggregated http.Handler
	lists      []*metav1.APIResourceList
	mapper     meta.RESTMapper
}

// get returns the document of c, nil if it serves built-in groups only.
func (d *Documents) get(c logicalcluster.Name) (*document, error) {
	now := ask(d.sources, c)
	if now.key == "" {
		return nil, nil
	}
	for {
		// Making it waits for nothing, and controllers ask without a context.
		doc, err := d.ready.Get(context.Background(), now.place, func() (*document, error) { return d.make(now) }) //nolint:forbidigo // see above
		if err != nil {
			return nil, fmt.Errorf("discovering what %s serves: %w", c, err)
		}
		if doc.key == now.key {
			return doc, nil
		}
		d.ready.Remove(now.place)
	}
}

// weight is what doc takes in memory, about.
func (doc *document) weight() int64 {
	n := int64(weightAlways)
	for _, v := range doc.versions {
		for _, r := range v.Discovery.Resources {
			n += weightEach * int64(1+len(r.Subresources))
		}
	}
	return n
}

func (d *Documents) make(now served) (*document, error) {
	builtin, err := d.builtin()
	if err != nil {
		return nil, err
	}
	reserved := map[string]bool{}
	for _, g := range builtin {
		for _, v := range g.Versions {
			reserved[g.Name+"/"+v.Version] = true
		}
	}
	doc := &document{key: now.key, versions: map[string]Version{}, groups: map[string]metav1.APIGroup{}}
	manager := aggregated.NewResourceManager("apis")
	manager.WithSource(aggregated.BuiltinSource).SetGroups(slices.Clone(builtin))
	for i, list := range now.versions {
		versions, err := list()
		if err != nil {
			return nil, err
		}
		from := manager.WithSource(aggregated.CRDSource + aggregated.Source(i))
		for _, v := range versions {
			gv := v.groupVersion()
			if _, taken := doc.versions[gv]; taken || reserved[gv] {
				continue
			}
			doc.versions[gv] = v
			from.AddGroupVersion(v.Group, v.Discovery)
			from.SetGroupVersionPriority(metav1.GroupVersion{Group: v.Group, Version: v.Discovery.Version}, v.GroupPriority, v.VersionPriority)
		}
	}
	doc.aggregated = manager
	doc.index()
	return doc, nil
}

// index derives what clients without aggregated discovery and controllers read.
func (doc *document) index() {
	var all []Version
	for _, v := range doc.versions {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Version) int {
		return cmp.Or(cmp.Compare(b.GroupPriority, a.GroupPriority), cmp.Compare(a.Group, b.Group),
			cmp.Compare(b.VersionPriority, a.VersionPriority), version.CompareKubeAwareVersionStrings(b.Discovery.Version, a.Discovery.Version))
	})
	local := map[string]*restmapper.APIGroupResources{}
	var forMapper []*restmapper.APIGroupResources
	for _, v := range all {
		g, known := doc.groups[v.Group]
		if !known {
			g = metav1.APIGroup{Name: v.Group}
			doc.order = append(doc.order, v.Group)
		}
		add(&g, v)
		doc.groups[v.Group] = g
		if v.Elsewhere != nil {
			continue
		}
		if local[v.Group] == nil {
			local[v.Group] = &restmapper.APIGroupResources{Group: metav1.APIGroup{Name: v.Group}, VersionedResources: map[string][]metav1.APIResource{}}
			forMapper = append(forMapper, local[v.Group])
		}
		add(&local[v.Group].Group, v)
		local[v.Group].VersionedResources[v.Discovery.Version] = v.resources()
		doc.lists = append(doc.lists, &metav1.APIResourceList{GroupVersion: v.groupVersion(), APIResources: v.resources()})
	}
	doc.mapper = restmapper.NewDiscoveryRESTMapper(forMapper)
}

// add puts v behind the versions of g.
func add(g *metav1.APIGroup, v Version) {
	g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.groupVersion(), Version: v.Discovery.Version})
	g.PreferredVersion = g.Versions[0]
}

// Resources returns what this server serves in c beside the built-in groups, for
// each version of a group.
func (d *Documents) Resources(c logicalcluster.Name) ([]*metav1.APIResourceList, error) {
	doc, err := d.get(c)
	if doc == nil || err != nil {
		return nil, err
	}
	return doc.lists, nil
}

// Mapper maps the kinds that this server serves in c beside the built-in ones; nil
// if c has no groups of its own.
func (d *Documents) Mapper(c logicalcluster.Name) (meta.RESTMapper, error) {
	doc, err := d.get(c)
	if doc == nil || err != nil {
		return nil, err
	}
	return doc.mapper, nil
}

// rootGroups serves the list of groups.
func (d *Documents) rootGroups(doc *document, w http.ResponseWriter, req *http.Request) {
	builtin, err := d.server.DiscoveryGroupManager.Groups(req.Context(), req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	root := discovery.NewRootAPIsHandler(noAddresses{}, d.serializer)
	for _, g := range builtin {
		root.AddGroup(g)
	}
	for _, name := range doc.order {
		if !slices.ContainsFunc(builtin, func(g metav1.APIGroup) bool { return g.Name == name }) {
			root.AddGroup(doc.groups[name])
		}
	}
	aggregated.WrapAggregatedDiscoveryToHandler(root, doc.aggregated, nil).ServeHTTP(w, req)
}

// noAddresses leaves out where the server is: a client that reads it knows, and
// the address would lack the logical cluster.
type noAddresses struct{}

// ServerAddressByClientCIDRs implements discovery.Addresses.
func (noAddresses) ServerAddressByClientCIDRs(net.IP) []metav1.ServerAddressByClientCIDR { return nil }

func (d *Documents) readBuiltin() ([]apidiscoveryv2.APIGroupDiscovery, error) {
	req := httptest.NewRequest(http.MethodGet, "/apis", nil)
	req.Header.Set("Accept", aggregatedJSON)
	answer := httptest.NewRecorder()
	d.server.AggregatedDiscoveryGroupManager.ServeHTTP(answer, req)
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("reading the built-in groups: %w", err)
	}
	return list.Items, nil
}
