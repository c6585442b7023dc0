package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI serves OpenAPI v3 of one version of a group.
type openAPI struct {
	path    string
	service *handler3.OpenAPIService
}

func newOpenAPI(v Version) *openAPI {
	o := &openAPI{path: "apis/" + v.groupVersion(), service: handler3.NewOpenAPIService()}
	o.service.UpdateGroupVersionLazy(o.path, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
		s, err := v.OpenAPIV3()
		return s, o.path, err
	})))
	return o
}

// url is where the index says that the document is; it has a hash of it.
func (o *openAPI) url() (handler3.OpenAPIV3DiscoveryGroupVersion, bool) {
	answer := httptest.NewRecorder()
	o.service.HandleDiscovery(answer, jsonRequest(openAPIV3Path))
	var index handler3.OpenAPIV3Discovery
	if json.Unmarshal(answer.Body.Bytes(), &index) != nil {
		return handler3.OpenAPIV3DiscoveryGroupVersion{}, false
	}
	url, ok := index.Paths[o.path]
	return url, ok
}

// openAPIV3Index is that of the built-in groups and of doc.
func (d *Documents) openAPIV3Index(doc *document, w http.ResponseWriter, _ *http.Request) {
	builtin, err := d.openAPI.V3()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer := httptest.NewRecorder()
	builtin.HandleDiscovery(answer, jsonRequest(openAPIV3Path))
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	if err := json.Unmarshal(answer.Body.Bytes(), &index); err != nil {
		http.Error(w, fmt.Sprintf("reading the index of the built-in groups: %v", err), http.StatusInternalServerError)
		return
	}
	for _, o := range doc.openAPIs {
		if url, ok := o.url(); ok { // one that cannot be made hides no other
			index.Paths[o.path] = url
		}
	}
	for gv, v := range doc.versions {
		if v.OpenAPIHash != "" {
			index.Paths["apis/"+gv] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: "/openapi/v3/apis/" + gv + "?hash=" + v.OpenAPIHash}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(index) // the client went
}

func jsonRequest(path string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Accept", "application/json")
	return req
}

// swagger serves OpenAPI v2 of everything.
type swagger struct {
	once    sync.Once
	handler http.Handler
	err     error
}

func (d *Documents) openAPIV2(doc *document, w http.ResponseWriter, req *http.Request) {
	d.mu.Lock()
	var s *swagger
	if known, ok := d.swaggers.Get(doc.key); ok {
		s = known.(*swagger)
	} else {
		s = &swagger{}
		d.swaggers.Add(doc.key, s)
	}
	d.mu.Unlock()
	s.once.Do(func() { s.handler, s.err = d.makeSwagger(doc) })
	if s.err != nil {
		http.Error(w, s.err.Error(), http.StatusInternalServerError)
		return
	}
	s.handler.ServeHTTP(w, req)
}

func (d *Documents) makeSwagger(doc *document) (http.Handler, error) {
	var parts []*spec.Swagger
	for _, list := range doc.lists { // in order: equal documents are equal bytes
		v := doc.versions[list.GroupVersion]
		if v.OpenAPIV2 == nil {
			continue
		}
		part, err := v.OpenAPIV2()
		if err != nil {
			continue // one that cannot be made hides no other
		}
		parts = append(parts, part)
	}
	builtin, err := d.openAPI.V2()
	if err != nil {
		return nil, err
	}
	merged, err := builder.MergeSpecs(builtin, parts...)
	if err != nil {
		return nil, fmt.Errorf("merging the OpenAPI v2 schemas: %w", err)
	}
	return swaggerHandler(merged), nil
}

// capture takes the one handler that is registered.
type capture struct{ http.Handler }

var _ common.PathHandler = &capture{}

// Handle implements common.PathHandler.
func (c *capture) Handle(_ string, h http.Handler) { c.Handler = h }
