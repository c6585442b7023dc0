package discovery

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	restful "github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Where the documents are.
const (
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"
)

// BuiltinOpenAPI has the OpenAPI documents of the built-in groups. Upstream's
// server makes them when it starts; they are half of what an empty server holds,
// and many servers are never asked for OpenAPI v2. Here the first request for a
// document makes it, and it stays.
type BuiltinOpenAPI struct {
	// V2 is the whole specification; nobody may change it.
	V2 func() (*spec.Swagger, error)
	// V3 serves the specifications of the versions of groups.
	V3 func() (*handler3.OpenAPIService, error)
}

// NewBuiltinOpenAPI describes the routes of container, which are all there when
// the first request arrives. The configurations are those of the server, which
// must not install documents itself.
func NewBuiltinOpenAPI(container *restful.Container, v2 *common.Config, v3 *common.OpenAPIV3Config) *BuiltinOpenAPI {
	// The server needed the types of the documents to install its groups. They are
	// made again with the document.
	v3.Definitions = nil
	return &BuiltinOpenAPI{
		V2: sync.OnceValues(func() (*spec.Swagger, error) {
			s, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(container.RegisteredWebServices()), v2)
			if err != nil {
				return nil, fmt.Errorf("making the OpenAPI v2 document: %w", err)
			}
			s.Definitions = handler.PruneDefaults(s.Definitions)
			return s, nil
		}),
		V3: sync.OnceValues(func() (*handler3.OpenAPIService, error) {
			// One map of all types, where each version of a group would make its own.
			shared := *v3
			shared.Definitions = v3.GetDefinitions(func(name string) spec.Ref {
				defName, _ := v3.GetDefinitionName(name)
				return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(defName))
			})
			s := routes.OpenAPI{V3Config: &shared}.InstallV3(container, mux.NewPathRecorderMux("openapi"))
			if s == nil {
				return nil, errors.New("making the OpenAPI v3 documents: there are none")
			}
			return s, nil
		}),
	}
}

// Install serves the documents.
func (b *BuiltinOpenAPI) Install(server *genericapiserver.GenericAPIServer) {
	v2 := sync.OnceValues(func() (http.Handler, error) {
		s, err := b.V2()
		if err != nil {
			return nil, err
		}
		return swaggerHandler(s), nil
	})
	server.Handler.NonGoRestfulMux.Handle(openAPIV2Path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h, err := v2()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, req)
	}))
	v3 := func(serve func(*handler3.OpenAPIService, http.ResponseWriter, *http.Request)) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			s, err := b.V3()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			serve(s, w, req)
		}
	}
	server.Handler.NonGoRestfulMux.Handle(openAPIV3Path, v3((*handler3.OpenAPIService).HandleDiscovery))
	server.Handler.NonGoRestfulMux.HandlePrefix(openAPIV3Path+"/", v3((*handler3.OpenAPIService).HandleGroupVersion))
}

// swaggerHandler serves one OpenAPI v2 document.
func swaggerHandler(s *spec.Swagger) http.Handler {
	var h capture
	handler.NewOpenAPIService(s).RegisterOpenAPIVersionedService(openAPIV2Path, &h)
	return h.Handler
}
