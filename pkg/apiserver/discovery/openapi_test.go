package discovery

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"google.golang.org/protobuf/proto"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	protobufV2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	protobufV3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
)

// builtinSwagger has a definition that those of definitions have, too, one of the same
// name that is another, and one that nobody else has.
func builtinSwagger() *spec.Swagger {
	part := must(builder.BuildOpenAPIV2(definition("builtin.io", "Builtin", "what is built in"), "v1", builder.Options{V2: true}))
	part.Definitions = handler.PruneDefaults(part.Definitions)
	part.Definitions["io.conflict.v1.Widget"] = spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}}}
	part.Swagger = "2.0"
	part.Info = &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "1"}}
	return part
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func definition(group, kind, text string) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	return &apiextensionsv1.CustomResourceDefinition{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: text, Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}, "a\"b<c>": {Type: "string"}}},
				}},
			}}},
		},
	}
}

// defines makes a version of a group that these definitions have, and counts what is made.
func defines(made *atomic.Int32, crds ...*apiextensionsv1.CustomResourceDefinition) Version {
	v := oneVersion(crds[0].Spec.Group, "v1")
	for _, crd := range crds {
		v.Discovery.Resources = append(v.Discovery.Resources, oneVersion(crd.Spec.Group, "v1", crd.Spec.Names.Kind).Discovery.Resources...)
		v.Parts = append(v.Parts, Part{
			Key: string(must(json.Marshal(crd))), Size: int64(len(must(json.Marshal(crd)))),
			V3: func() (*spec3.OpenAPI, error) {
				made.Add(1)
				return builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
			},
			V2: func() (*spec.Swagger, error) {
				made.Add(1)
				s, err := builder.BuildOpenAPIV2(crd, "v1", builder.Options{V2: true})
				if err == nil {
					s.Definitions = handler.PruneDefaults(s.Definitions)
				}
				return s, err
			},
		})
	}
	return v
}

var crds = []*apiextensionsv1.CustomResourceDefinition{
	definition("example.com", "Widget", "a widget"), definition("example.com", "Gadget", "a gadget"), definition("other.io", "Widget", "another widget"),
	// Its definitions have the name of a built-in one: groups are reversed in names.
	definition("conflict.io", "Widget", "not what is built in"),
}

func serving(t *testing.T, made *atomic.Int32) (*Documents, http.Handler) {
	t.Helper()
	versions := []Version{defines(made, crds[0], crds[1]), defines(made, crds[2]), defines(made, crds[3])}
	return newDocuments(t, &source{
		keys:     map[logicalcluster.Name]string{"a": "1", "b": "2"},
		versions: map[string][]Version{"1": versions, "2": versions[:2]},
	})
}

func TestMergedBytesAreTheDocumentsOfUpstream(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	_, h := serving(t, &made)

	var v3 []*spec3.OpenAPI
	for _, crd := range crds[:2] {
		v3 = append(v3, must(builder.BuildOpenAPIV3(crd, "v1", builder.Options{})))
	}
	want := must(json.Marshal(must(builder.MergeSpecsV3(v3...))))
	compareJSON(t, "v3", want, []byte(get(t, h, "a", "/openapi/v3/apis/example.com/v1", "application/json")))
	var got3, want3 openapiv3.Document
	unmarshal(t, get(t, h, "a", "/openapi/v3/apis/example.com/v1", protobufV3), &got3)
	unmarshal(t, string(must(handler3.ToV3ProtoBinary(want))), &want3)
	if !proto.Equal(&got3, &want3) {
		t.Error("v3: the protobuf is another than upstream's")
	}

	var v2 []*spec.Swagger
	for _, i := range []int{3, 1, 0, 2} { // in the order of groups; within one it does not matter
		s := must(builder.BuildOpenAPIV2(crds[i], "v1", builder.Options{V2: true}))
		s.Definitions = handler.PruneDefaults(s.Definitions)
		v2 = append(v2, s)
	}
	want = must(must(builder.MergeSpecs(builtinSwagger(), v2...)).MarshalJSON())
	if !bytes.Contains(want, []byte(`"io.conflict.v1.Widget_v2"`)) {
		t.Fatal("the definitions do not conflict")
	}
	compareJSON(t, "v2", want, []byte(get(t, h, "a", "/openapi/v2", "application/json")))
	var got2, want2 openapiv2.Document
	unmarshal(t, get(t, h, "a", "/openapi/v2", protobufV2), &got2)
	unmarshal(t, string(must(handler.ToProtoBinary(want))), &want2)
	if !proto.Equal(&got2, &want2) {
		t.Error("v2: the protobuf is another than upstream's")
	}
}

func compareJSON(t *testing.T, what string, want, got []byte) {
	t.Helper()
	if diff := cmp.Diff(decode[any](t, string(want)), decode[any](t, string(got))); diff != "" {
		t.Errorf("%s (-upstream +got):\n%s", what, diff)
	}
}

func unmarshal(t *testing.T, data string, into proto.Message) {
	t.Helper()
	if err := proto.Unmarshal([]byte(data), into); err != nil {
		t.Fatal(err)
	}
}

func TestLogicalClustersShareThePartsOfEqualDefinitions(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	d, h := serving(t, &made)
	get(t, h, "a", "/openapi/v2", "application/json")
	before, _ := d.openAPI.parts.Size()
	get(t, h, "b", "/openapi/v2", "application/json")
	if after, _ := d.openAPI.parts.Size(); made.Load() != int32(len(crds)) || after != before {
		t.Errorf("%d schemas were made of %d definitions; %d parts are kept, before %d", made.Load(), len(crds), after, before)
	}
}

func TestTheIndexMakesNoSchemaAndItsHashesAreThoseOfTheDocuments(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	_, h := serving(t, &made)
	index := decode[handler3.OpenAPIV3Discovery](t, get(t, h, "a", "/openapi/v3", "application/json"))
	if len(index.Paths) != 4 || made.Load() != 0 {
		t.Errorf("the index has %d paths, and %d schemas were made", len(index.Paths), made.Load())
	}
	url := index.Paths["apis/example.com/v1"].ServerRelativeURL
	answer := fetch(h, "a", url, "")
	if answer.Code != http.StatusOK || !strings.Contains(answer.Header().Get("Cache-Control"), "immutable") || answer.Header().Get("Etag") == "" {
		t.Errorf("%s: %d, %v", url, answer.Code, answer.Header())
	}
	if again := fetch(h, "a", url, answer.Header().Get("Etag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("who has it already is answered %d and %d bytes", again.Code, again.Body.Len())
	}
	if old := fetch(h, "a", "/openapi/v3/apis/example.com/v1?hash=OLD", ""); old.Code != http.StatusMovedPermanently || old.Header().Get("Location") != url {
		t.Errorf("who knows an older one is answered %d, %v", old.Code, old.Header())
	}
	req := httptest.NewRequest(http.MethodGet, url, nil)
	req.Header.Set("Accept", "text/html")
	refused := httptest.NewRecorder()
	h.ServeHTTP(refused, req.WithContext(scope.With(req.Context(), scope.Scope{Cluster: "a"})))
	if refused.Code != http.StatusNotAcceptable {
		t.Errorf("who wants HTML is answered %d", refused.Code)
	}
}

func fetch(h http.Handler, c logicalcluster.Name, path, known string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("If-None-Match", known)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, req.WithContext(scope.With(req.Context(), scope.Scope{Cluster: c})))
	return answer
}

func TestASchemaThatCannotBeMadeHidesNoOther(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	good, mixed, broken := defines(&made, crds[2]), defines(&made, crds[0], crds[1]), defines(&made, definition("broken.io", "Broken", ""))
	tries := 0
	for _, p := range []*Part{&mixed.Parts[1], &broken.Parts[0]} {
		p.V3 = func() (*spec3.OpenAPI, error) { tries++; return nil, errors.New("no schema") }
		p.V2 = func() (*spec.Swagger, error) { return nil, errors.New("no schema") }
	}
	_, h := newDocuments(t, &source{keys: map[logicalcluster.Name]string{"a": "1"}, versions: map[string][]Version{"1": {good, mixed, broken}}})
	for path, want := range map[string]string{"/openapi/v3/apis/other.io/v1": "another widget", "/openapi/v3/apis/example.com/v1": "a widget", "/openapi/v2": "another widget"} {
		if got := get(t, h, "a", path, "application/json"); !strings.Contains(got, want) {
			t.Errorf("%s has no %q: %s", path, want, got)
		}
	}
	for range 3 {
		if got := fetch(h, "a", "/openapi/v3/apis/broken.io/v1", ""); got.Code != http.StatusInternalServerError || !strings.Contains(got.Body.String(), "no schema") {
			t.Errorf("what cannot be made is answered %d %s", got.Code, got.Body)
		}
	}
	if tries != 2 {
		t.Errorf("it was tried %d times", tries)
	}
}

// TestManyDefinitionsOfOneTenantLeaveABoundedWeight asks for the documents of definitions
// of which each is another.
func TestManyDefinitionsOfOneTenantLeaveABoundedWeight(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	var versions []Version
	random := rand.NewChaCha8([32]byte{})
	for i := range 100 {
		text := make([]byte, 1<<19) // as text a megabyte, of which compression leaves half
		_, _ = random.Read(text)
		versions = append(versions, defines(&made, definition(fmt.Sprintf("g%d.io", i), "Widget", hex.EncodeToString(text))))
	}
	d, h := newDocuments(t, &source{keys: map[logicalcluster.Name]string{"a": "1"}, versions: map[string][]Version{"1": versions}})
	for i := range 100 {
		get(t, h, "a", fmt.Sprintf("/openapi/v3/apis/g%d.io/v1", i), "application/json")
		if _, weight := d.openAPI.parts.Size(); weight > maxParts {
			t.Fatalf("after %d documents %d bytes are kept", i+1, weight)
		}
	}
	if kept, weight := d.openAPI.parts.Size(); kept > 64 || weight < maxParts/2 {
		t.Errorf("%d parts of %d bytes are kept", kept, weight)
	}
}

func FuzzDocumentsThatArriveAsBytesNeverPanic(f *testing.F) {
	f.Add([]byte(`{"paths":{"a":1},"components":{"schemas":{"b":{}}},"info":{}}`))
	f.Add(must(handler3.ToV3ProtoBinary(must(json.Marshal(must(builder.BuildOpenAPIV3(crds[0], "v1", builder.Options{})))))))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := splitJSON(layoutV3, data); err == nil {
			joined := bytes.Join(joinJSON(layoutV3, r), nil)
			if !json.Valid(joined) {
				t.Errorf("%q became %q", data, joined)
			}
		}
		if r, err := splitProtobuf(layoutV3, data); err == nil {
			again, err := splitProtobuf(layoutV3, bytes.Join(joinProtobuf(layoutV3, r), nil))
			if err != nil || len(again.sets[0]) != len(r.sets[0]) || len(again.sets[1]) != len(r.sets[1]) {
				t.Errorf("%x is not the same after it was joined: %v", data, err)
			}
		}
	})
}
