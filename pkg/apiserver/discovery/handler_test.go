package discovery

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// source serves, by logical cluster, what a key identifies.
type source struct {
	keys     map[logicalcluster.Name]string
	versions map[string][]Version
	made     []string // keys for which versions were made
	err      error
}

func (s *source) Served(c logicalcluster.Name) (string, func() ([]Version, error)) {
	key := s.keys[c]
	return key, func() ([]Version, error) {
		s.made = append(s.made, key)
		return s.versions[key], s.err
	}
}

// private is a source of its own for each logical cluster.
type private struct{ *source }

func (private) Private() {}

func oneVersion(group, version string, kinds ...string) Version {
	v := Version{Group: group, Discovery: apidiscoveryv2.APIVersionDiscovery{Version: version}, GroupPriority: 1000, VersionPriority: 10}
	for _, kind := range kinds {
		v.Discovery.Resources = append(v.Discovery.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: strings.ToLower(kind) + "s", SingularResource: strings.ToLower(kind), Scope: apidiscoveryv2.ScopeNamespace, Verbs: []string{"get"},
			ResponseKind: &metav1.GroupVersionKind{Group: group, Version: version, Kind: kind},
		})
	}
	return v
}

// newDocuments are those of a server whose one built-in version is apps/v1, before a
// handler that answers 418.
func newDocuments(t *testing.T, sources ...Source) (*Documents, http.Handler) {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	codecs := serializer.NewCodecFactory(scheme)
	server := &genericapiserver.GenericAPIServer{
		Serializer:                      codecs,
		DiscoveryGroupManager:           discovery.NewRootAPIsHandler(noAddresses{}, codecs),
		AggregatedDiscoveryGroupManager: aggregated.NewResourceManager("apis"),
	}
	builtin := oneVersion("apps", "v1", "Deployment")
	server.AggregatedDiscoveryGroupManager.AddGroupVersion("apps", builtin.Discovery)
	g := metav1.APIGroup{Name: "apps"}
	add(&g, builtin)
	server.DiscoveryGroupManager.AddGroup(g)
	v3 := handler3.NewOpenAPIService()
	v3.UpdateGroupVersion("apis/apps/v1", &spec3.OpenAPI{Version: "3.0.0"})
	d := New(server, newBuiltinOpenAPI(
		func() (*spec.Swagger, error) { return builtinSwagger(), nil },
		func() (*handler3.OpenAPIService, error) { return v3, nil },
	), sources...)
	return d, d.With(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
}

// get gets a document in a logical cluster; nothing if the next handler was reached.
func get(t *testing.T, h http.Handler, c logicalcluster.Name, path, accept string) string {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Accept", accept)
	if c != "" {
		req = req.WithContext(scope.With(req.Context(), scope.Scope{Cluster: c}))
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, req)
	switch answer.Code {
	case http.StatusOK:
		return answer.Body.String()
	case http.StatusTeapot:
		return ""
	default:
		t.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
		return ""
	}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	return out
}

// groups are the groups and versions that c sees, as a client without and one with
// aggregated discovery does.
func groups(t *testing.T, h http.Handler, c logicalcluster.Name) (plain, aggregated []string) {
	t.Helper()
	for _, g := range decode[metav1.APIGroupList](t, get(t, h, c, "/apis", "application/json")).Groups {
		for _, v := range g.Versions {
			plain = append(plain, v.GroupVersion)
		}
	}
	for _, g := range decode[apidiscoveryv2.APIGroupDiscoveryList](t, get(t, h, c, "/apis", aggregatedJSON)).Items {
		for _, v := range g.Versions {
			aggregated = append(aggregated, g.Name+"/"+v.Version)
		}
	}
	return plain, aggregated
}

func TestEachLogicalClusterDiscoversWhatItServes(t *testing.T) {
	t.Parallel()
	custom := &source{
		keys:     map[logicalcluster.Name]string{"a": "1", "b": "2"},
		versions: map[string][]Version{"1": {oneVersion("example.com", "v1", "Widget")}, "2": {oneVersion("example.com", "v2", "Widget"), oneVersion("other.io", "v1", "Gadget")}},
	}
	_, h := newDocuments(t, custom)
	for c, want := range map[logicalcluster.Name][]string{
		"a": {"apps/v1", "example.com/v1"},
		"b": {"apps/v1", "example.com/v2", "other.io/v1"},
	} {
		plain, aggregated := groups(t, h, c)
		if diff := cmp.Diff(want, plain); diff != "" {
			t.Errorf("%s, plain (-want +got):\n%s", c, diff)
		}
		slices.Sort(aggregated)
		if diff := cmp.Diff(want, aggregated); diff != "" {
			t.Errorf("%s, aggregated (-want +got):\n%s", c, diff)
		}
	}
	list := decode[metav1.APIResourceList](t, get(t, h, "a", "/apis/example.com/v1", "application/json"))
	want := []metav1.APIResource{{Name: "widgets", SingularName: "widget", Namespaced: true, Kind: "Widget", Verbs: []string{"get"}}}
	if diff := cmp.Diff(want, list.APIResources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if g := decode[metav1.APIGroup](t, get(t, h, "b", "/apis/example.com", "application/json")); g.PreferredVersion.Version != "v2" {
		t.Errorf("the group in b is %+v", g)
	}
}

func TestTheServerItselfAnswersForWhatNoLogicalClusterDefined(t *testing.T) {
	t.Parallel()
	custom := &source{keys: map[logicalcluster.Name]string{"a": "1"}, versions: map[string][]Version{"1": {oneVersion("example.com", "v1", "Widget")}}}
	_, h := newDocuments(t, custom)
	for _, c := range []struct {
		cluster logicalcluster.Name
		path    string
	}{
		{"empty", "/apis"},
		{"empty", "/apis/example.com/v1"}, // which another one defined
		{"a", "/apis/apps"},
		{"a", "/apis/apps/v1"},
		{"a", "/apis/example.com/v9"},
		{"a", "/api"},
		{"a", "/apis/example.com/v1/namespaces/web/widgets"},
		{scope.Wildcard, "/apis"},
		{"", "/apis"},
	} {
		if got := get(t, h, c.cluster, c.path, "application/json"); got != "" {
			t.Errorf("%s in %q: %s", c.path, c.cluster, got)
		}
	}
}

func TestABuiltInVersionWinsAndThenTheFirstSource(t *testing.T) {
	t.Parallel()
	one := map[logicalcluster.Name]string{"a": "1"}
	first := &source{keys: one, versions: map[string][]Version{"1": {oneVersion("apps", "v1", "Fake"), oneVersion("example.com", "v1", "First")}}}
	second := &source{keys: one, versions: map[string][]Version{"1": {oneVersion("example.com", "v1", "Second"), oneVersion("example.com", "v2", "Second")}}}
	d, h := newDocuments(t, first, second)
	lists, err := d.Resources("a")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lists {
		for _, r := range l.APIResources {
			got = append(got, l.GroupVersion+" "+r.Kind)
		}
	}
	if diff := cmp.Diff([]string{"example.com/v2 Second", "example.com/v1 First"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(get(t, h, "a", "/apis", aggregatedJSON), "Fake") {
		t.Error("a definition hides a built-in version")
	}
}

func TestEqualKeysShareADocumentAndPrivateOnesAreReplaced(t *testing.T) {
	t.Parallel()
	shared := &source{keys: map[logicalcluster.Name]string{"a": "1", "b": "1"}, versions: map[string][]Version{"1": {oneVersion("example.com", "v1", "Widget")}}}
	d, _ := newDocuments(t, shared)
	own := private{&source{keys: map[logicalcluster.Name]string{"a": "a1", "b": "b1"}, versions: map[string][]Version{
		"a1": {oneVersion("example.com", "v1", "Widget")}, "a2": {oneVersion("example.com", "v2", "Widget")}, "b1": {oneVersion("example.com", "v1", "Widget")}}}}
	p, _ := newDocuments(t, own)
	read := func(d *Documents, c logicalcluster.Name) *document {
		t.Helper()
		doc, err := d.get(c)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	if read(d, "a") != read(d, "b") || len(shared.made) != 1 {
		t.Errorf("equal keys were made %d times", len(shared.made))
	}
	before := read(p, "a")
	read(p, "b")
	own.keys["a"] = "a2"
	if after := read(p, "a"); after == before || after.versions["example.com/v2"].Group == "" {
		t.Error("a new key serves the old document")
	}
	read(p, "a")
	if diff := cmp.Diff([]string{"a1", "b1", "a2"}, own.made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if kept, _ := p.ready.Size(); kept != 2 {
		t.Errorf("%d documents are kept for two logical clusters", kept)
	}
}

func TestAVersionServedElsewhereIsHandedOnAndNoBusinessOfControllers(t *testing.T) {
	t.Parallel()
	remote := oneVersion("metrics.example.com", "v1")
	remote.OpenAPIHash = "abc"
	remote.Elsewhere = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = w.Write([]byte("from elsewhere: " + req.URL.Path))
	})
	d, h := newDocuments(t, &source{keys: map[logicalcluster.Name]string{"a": "1"}, versions: map[string][]Version{"1": {remote, oneVersion("example.com", "v1", "Widget")}}})
	for _, path := range []string{"/apis/metrics.example.com/v1", "/openapi/v3/apis/metrics.example.com/v1"} {
		if got := get(t, h, "a", path, "application/json"); got != "from elsewhere: "+path {
			t.Errorf("%s: %q", path, got)
		}
	}
	if plain, _ := groups(t, h, "a"); !slices.Contains(plain, "metrics.example.com/v1") {
		t.Errorf("clients do not see it: %v", plain)
	}
	lists, err := d.Resources("a")
	if err != nil || len(lists) != 1 || lists[0].GroupVersion != "example.com/v1" {
		t.Errorf("controllers see %v, %v", lists, err)
	}
	mapper, err := d.Mapper("a")
	if err != nil {
		t.Fatal(err)
	}
	if gvk, err := mapper.KindFor(schema.GroupVersionResource{Resource: "widgets"}); err != nil || gvk.Kind != "Widget" {
		t.Errorf("widgets are mapped to %v, %v", gvk, err)
	}
	if index := get(t, h, "a", "/openapi/v3", "application/json"); !strings.Contains(index, "/openapi/v3/apis/metrics.example.com/v1?hash=abc") {
		t.Errorf("the index of schemas is %s", index)
	}
}

func TestASourceThatFailsLeavesTheBuiltInGroups(t *testing.T) {
	t.Parallel()
	failing := &source{keys: map[logicalcluster.Name]string{"a": "1"}, err: errors.New("no definitions")}
	d, h := newDocuments(t, failing)
	if got := get(t, h, "a", "/apis", "application/json"); got != "" {
		t.Errorf("the next handler was not asked: %s", got)
	}
	if _, err := d.Resources("a"); err == nil {
		t.Error("the answer to controllers is that there is nothing")
	}
	failing.err, failing.versions = nil, map[string][]Version{"1": {oneVersion("example.com", "v1", "Widget")}}
	if plain, _ := groups(t, h, "a"); !slices.Contains(plain, "example.com/v1") {
		t.Errorf("the failure is remembered: %v", plain)
	}
}
