package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
// document makes it, and what stays is its bytes.
type BuiltinOpenAPI struct {
	v2 func() (*builtinV2, error)
	v3 func() (map[string]*builtinV3, error) // by path, such as apis/apps/v1
}

// builtinV2 is the document that is merged with those of definitions.
type builtinV2 struct {
	json     *rendered
	protobuf func() (*rendered, error)
	hash     string
}

// builtinV3 is the document of one version of a group.
type builtinV3 struct {
	json     []byte
	protobuf func() ([]byte, error)
	hash     string
}

// NewBuiltinOpenAPI describes the routes of container, which are all there when
// the first request arrives. The configurations are those of the server, which
// must not install documents itself.
func NewBuiltinOpenAPI(container *restful.Container, v2 *common.Config, v3 *common.OpenAPIV3Config) *BuiltinOpenAPI {
	// The server needed the types of the documents to install its groups. They are
	// made again with the document.
	v3.Definitions = nil
	return newBuiltinOpenAPI(func() (*spec.Swagger, error) {
		// Of its own, as upstream leaves functions in a configuration that hold all that it made.
		config := *v2
		s, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(container.RegisteredWebServices()), &config)
		if err != nil {
			return nil, fmt.Errorf("making the OpenAPI v2 document: %w", err)
		}
		s.Definitions = handler.PruneDefaults(s.Definitions)
		return s, nil
	}, func() (*handler3.OpenAPIService, error) {
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
	})
}

func newBuiltinOpenAPI(v2 func() (*spec.Swagger, error), v3 func() (*handler3.OpenAPIService, error)) *BuiltinOpenAPI {
	return &BuiltinOpenAPI{
		v2: sync.OnceValues(func() (*builtinV2, error) {
			s, err := v2()
			if err != nil {
				return nil, err
			}
			return newBuiltinV2(s)
		}),
		v3: sync.OnceValues(func() (map[string]*builtinV3, error) {
			s, err := v3()
			if err != nil {
				return nil, err
			}
			return readBuiltinV3(s)
		}),
	}
}

func newBuiltinV2(s *spec.Swagger) (*builtinV2, error) {
	data, err := s.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding the OpenAPI v2 document: %w", err)
	}
	b := &builtinV2{hash: hashOf(string(data))}
	if b.json, err = splitJSON(layoutV2, data); err != nil {
		return nil, err
	}
	b.protobuf = sync.OnceValues(func() (*rendered, error) { return toProtobuf(layoutV2, b.json) })
	return b, nil
}

// readBuiltinV3 takes the bytes from the service, which holds parsed documents.
func readBuiltinV3(s *handler3.OpenAPIService) (map[string]*builtinV3, error) {
	answer := httptest.NewRecorder()
	s.HandleDiscovery(answer, jsonRequest(openAPIV3Path))
	var index handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(answer.Body.Bytes(), &index); err != nil {
		return nil, fmt.Errorf("reading the index of the built-in groups: %w", err)
	}
	all := map[string]*builtinV3{}
	for path := range index.Paths {
		answer := httptest.NewRecorder()
		s.HandleGroupVersion(answer, jsonRequest(openAPIV3Path+"/"+path))
		if answer.Code != http.StatusOK {
			return nil, fmt.Errorf("reading the OpenAPI v3 document of %s: status %d", path, answer.Code)
		}
		data := bytes.Clone(answer.Body.Bytes()) // without the room to grow
		all[path] = &builtinV3{
			json: data, hash: hashOf(string(data)),
			protobuf: sync.OnceValues(func() ([]byte, error) { return handler3.ToV3ProtoBinary(data) }),
		}
	}
	return all, nil
}

func jsonRequest(path string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Accept", "application/json")
	return req
}

// Install serves the documents.
func (b *BuiltinOpenAPI) Install(server *genericapiserver.GenericAPIServer) {
	m := server.Handler.NonGoRestfulMux
	m.Handle(openAPIV2Path, zipped(func(w http.ResponseWriter, req *http.Request) {
		base, err := b.v2()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer{hash: base.hash, encodings: encodingsV2, write: func(_ context.Context, e encoding) ([][]byte, func(), error) {
			r, err := base.in(e)
			if err != nil {
				return nil, nil, err
			}
			return e.join(layoutV2, r), func() {}, nil
		}}.ServeHTTP(w, req)
	}))
	m.Handle(openAPIV3Path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		index, err := b.index()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeIndex(w, index)
	}))
	m.HandlePrefix(openAPIV3Path+"/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		all, err := b.v3()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		path := strings.TrimPrefix(req.URL.Path, openAPIV3Path+"/")
		one := all[path]
		if one == nil {
			http.NotFound(w, req)
			return
		}
		answer{hash: one.hash, path: path, encodings: encodingsV3, write: func(_ context.Context, e encoding) ([][]byte, func(), error) {
			if e.kind == encodingJSON.kind {
				return [][]byte{one.json}, func() {}, nil
			}
			data, err := one.protobuf()
			return [][]byte{data}, func() {}, err
		}}.ServeHTTP(w, req)
	}))
}

// in is the document in one encoding.
func (b *builtinV2) in(e encoding) (*rendered, error) {
	if e.kind == encodingJSON.kind {
		return b.json, nil
	}
	return b.protobuf()
}

// index is what is at /openapi/v3 of the built-in groups.
func (b *BuiltinOpenAPI) index() (handler3.OpenAPIV3Discovery, error) {
	all, err := b.v3()
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for path, one := range all {
		index.Paths[path] = where(path, one.hash)
	}
	return index, err
}

func where(path, hash string) handler3.OpenAPIV3DiscoveryGroupVersion {
	return handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: openAPIV3Path + "/" + path + "?hash=" + hash}
}
