package crds

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Handler serves custom resources; it is what the server asks about paths that
// no built-in resource has.
type Handler struct {
	definitions *Definitions
	handlers    *handlers
}

// NewHandler serves what is defined.
func NewHandler(definitions *Definitions, config ServingConfig) *Handler {
	h := &Handler{definitions: definitions, handlers: newHandlers(config)}
	definitions.Handle(func(old, _ *Definition) {
		if old != nil && len(definitions.ByIndex(byShape, string(old.Shape[:]))) == 0 {
			h.handlers.forget(old.Shape)
		}
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx := req.Context()
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !info.IsResourceRequest {
		h.handlers.config.Delegate.ServeHTTP(w, req)
		return
	}
	c, _ := scope.ClusterFrom(ctx)
	gr := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	var d *Definition
	if c == scope.Wildcard {
		d = everywhere(h.definitions.Everywhere(gr))
	} else {
		d, _ = h.definitions.Find(c, gr)
	}
	if d == nil || !d.Served() {
		h.handlers.config.Delegate.ServeHTTP(w, req)
		return
	}
	e, err := h.handlers.get(ctx, d)
	if apierrors.IsTooManyRequests(err) {
		responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
		return
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Serving a custom resource failed", "cluster", c, "resource", gr)
		responsewriters.ErrorNegotiated(apierrors.NewInternalError(fmt.Errorf("serving %s failed: see the conditions of its CustomResourceDefinition", gr)),
			apiextensionsapiserver.Codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
		return
	}
	if info.Verb == "watch" && c != scope.Wildcard {
		// A watch shows objects as its definition says: it ends with that.
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		defer h.definitions.when(controller.RequestFor(d), func(now *Definition) bool { return now == nil || now.schema != d.schema }, cancel)()
		req = req.WithContext(watching)
	}
	e.handler.ServeHTTP(w, req)
}

// everywhere is the definition for requests of the system over all logical
// clusters: it has every version that any of them has and SystemVersion, no schema and no
// conversion but of the version's name, so objects come as they are stored.
func everywhere(all []*Definition) *Definition {
	all = slices.DeleteFunc(all, func(d *Definition) bool { return !d.Served() })
	if len(all) == 0 {
		return nil
	}
	names := map[string]bool{SystemVersion: true}
	for _, d := range all {
		for _, v := range d.Spec.Versions {
			names[v.Name] = true
		}
	}
	versions := make([]string, 0, len(names))
	for name := range names {
		versions = append(versions, name)
	}
	slices.Sort(versions)

	// The oldest definition gives the names: any will do, it must be always the same.
	first := slices.MinFunc(all, func(a, b *Definition) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: first.Name},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: first.Spec.Group, Names: first.Spec.Names, Scope: first.Spec.Scope,
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		},
		Status: *first.Status.DeepCopy(),
	}
	crd.Status.AcceptedNames = first.Spec.Names
	keep := true
	for i, name := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
		})
	}
	text := fmt.Sprintf("everywhere %s %s %v", crd.Name, crd.Spec.Names.Kind, versions)
	return &Definition{CustomResourceDefinition: crd, Shape: sha256.Sum256([]byte(text))}
}
