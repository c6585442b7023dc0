package discovery

import (
	"net/http"
	"strings"

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
		if doc == nil || !d.serve(doc, w, req) {
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
func (d *Documents) serve(doc *document, w http.ResponseWriter, req *http.Request) bool {
	path := strings.Trim(req.URL.Path, "/")
	parts := strings.Split(path, "/")
	switch {
	case path == "apis":
		d.rootGroups(doc, w, req)
	case path == "openapi/v2":
		d.openAPIV2(doc, w, req)
	case path == "openapi/v3":
		d.openAPIV3Index(doc, w, req)
	case parts[0] == "openapi":
		gv := strings.TrimPrefix(path, "openapi/v3/apis/")
		if v := doc.versions[gv]; v.Elsewhere != nil {
			v.Elsewhere.ServeHTTP(w, req)
			return true
		}
		o := doc.openAPIs[gv]
		if o == nil {
			return false
		}
		o.service.HandleGroupVersion(w, req)
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
