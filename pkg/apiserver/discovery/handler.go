package discovery

import (
	"net/http"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/klog/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// With serves the documents; next serves everything else, and the documents of
// logical clusters that have no groups of their own.
func (d *Documents) With(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !isDocument(req) {
			next.ServeHTTP(w, req)
			return
		}
		c, ok := scope.ClusterFrom(req.Context())
		if !ok || c == scope.Wildcard {
			next.ServeHTTP(w, req)
			return
		}
		doc, err := d.get(c)
		if err != nil {
			// Better the built-in groups than nothing at all.
			klog.FromContext(req.Context()).Error(err, "Discovery shows built-in groups only", "cluster", c)
		}
		if doc == nil || !d.serve(c, doc, w, req) {
			next.ServeHTTP(w, req)
		}
	})
}

func isDocument(req *http.Request) bool {
	path := req.URL.Path
	return req.Method == http.MethodGet &&
		(path == "/apis" || strings.HasPrefix(path, "/apis/") && strings.Count(strings.Trim(path, "/"), "/") <= 2 || strings.HasPrefix(path, "/openapi/"))
}

// serve reports whether doc has the document of the request.
func (d *Documents) serve(c logicalcluster.Name, doc *document, w http.ResponseWriter, req *http.Request) bool {
	path := strings.Trim(req.URL.Path, "/")
	parts := strings.Split(path, "/")
	switch {
	case path == "apis":
		d.rootGroups(doc, w, req)
	case path == "openapi/v2":
		zipped(func(w http.ResponseWriter, req *http.Request) { d.openAPIV2(c, doc, w, req) }).ServeHTTP(w, req)
	case path == "openapi/v3":
		d.openAPIV3Index(doc, w)
	case parts[0] == "openapi":
		gv := strings.TrimPrefix(path, "openapi/v3/apis/")
		if v := doc.versions[gv]; v.Elsewhere != nil {
			v.Elsewhere.ServeHTTP(w, req)
			return true
		}
		if len(doc.versions[gv].Parts) == 0 {
			return false
		}
		d.openAPIV3(c, gv, doc.versions[gv].Parts, w, req)
	case len(parts) == 2:
		g, ok := doc.groups[parts[1]]
		if !ok || d.isBuiltin(parts[1]) {
			return false
		}
		discovery.NewAPIGroupHandler(d.serializer, g).ServeHTTP(w, req)
	default:
		v, ok := doc.versions[parts[1]+"/"+parts[2]]
		if !ok {
			return false
		}
		if v.Elsewhere != nil {
			v.Elsewhere.ServeHTTP(w, req)
			return true
		}
		discovery.NewAPIVersionHandler(d.serializer, schema.GroupVersion{Group: v.Group, Version: v.Discovery.Version},
			discovery.APIResourceListerFunc(func() []metav1.APIResource { return v.resources() })).ServeHTTP(w, req)
	}
	return true
}

// openAPIV3Index is that of the built-in groups and of doc. It makes no document.
func (d *Documents) openAPIV3Index(doc *document, w http.ResponseWriter) {
	index, err := d.openAPI.builtin.index()
	if err != nil {
		fail(w, err)
		return
	}
	for gv, v := range doc.versions {
		switch path := "apis/" + gv; {
		case v.OpenAPIHash != "":
			index.Paths[path] = where(path, v.OpenAPIHash)
		case len(v.Parts) > 0:
			index.Paths[path] = where(path, hashOfParts(v.Parts))
		}
	}
	writeIndex(w, index)
}

// openAPIV3 serves the document of one version of a group.
func (d *Documents) openAPIV3(c logicalcluster.Name, gv string, parts []Part, w http.ResponseWriter, req *http.Request) {
	write := writing{openAPI: d.openAPI, cluster: c, version: 3, parts: parts}.write
	answer{hash: hashOfParts(parts), path: "apis/" + gv, encodings: encodingsV3, write: write}.ServeHTTP(w, req)
}

// openAPIV2 serves one document of everything.
func (d *Documents) openAPIV2(c logicalcluster.Name, doc *document, w http.ResponseWriter, req *http.Request) {
	base, err := d.openAPI.builtin.v2()
	if err != nil {
		fail(w, err)
		return
	}
	var parts []Part
	for _, list := range doc.lists { // in order: equal documents are equal bytes
		parts = append(parts, doc.versions[list.GroupVersion].Parts...)
	}
	write := writing{openAPI: d.openAPI, cluster: c, version: 2, base: base.in, parts: parts}.write
	answer{hash: hashOf(base.hash, hashOfParts(parts)), encodings: encodingsV2, write: write}.ServeHTTP(w, req)
}

func hashOfParts(parts []Part) string {
	keys := make([]string, len(parts))
	for i, p := range parts {
		keys[i] = p.Key
	}
	return hashOf(keys...)
}

func (d *Documents) isBuiltin(group string) bool {
	builtin, err := d.builtin()
	if err != nil {
		return true
	}
	for _, g := range builtin {
		if g.Name == group {
			return true
		}
	}
	return false
}
