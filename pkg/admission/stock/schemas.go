package stock

import (
	"fmt"
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
)

// withSchemas fetches the index of the schemas before there is a plugin.
//
// Upstream's plugin for mutating policies fetches it in the background and
// refuses what it has no schema for. A kube-apiserver has it long before the
// first policy; here the plugin comes with the policy.
func (s *setup) withSchemas() error {
	client := s.kube.Discovery().OpenAPIV3()
	first, err := client.Paths()
	if err != nil {
		return fmt.Errorf("reading the index of schemas: %w", err)
	}
	s.kube = schemaClient{s.kube, &schemas{Client: client, first: first}}
	return nil
}

type schemaClient struct {
	kubernetes.Interface
	schemas *schemas
}

// Discovery implements kubernetes.Interface.
func (c schemaClient) Discovery() discovery.DiscoveryInterfaces {
	return schemaDiscovery{c.Interface.Discovery(), c.schemas}
}

type schemaDiscovery struct {
	discovery.DiscoveryInterfaces
	schemas *schemas
}

// OpenAPIV3 implements discovery.OpenAPIV3SchemaInterface.
func (d schemaDiscovery) OpenAPIV3() openapi.Client { return d.schemas }

// schemas answers at once the first time.
type schemas struct {
	openapi.Client
	mu    sync.Mutex
	first map[string]openapi.GroupVersion
}

// Paths implements openapi.Client.
func (s *schemas) Paths() (map[string]openapi.GroupVersion, error) {
	s.mu.Lock()
	first := s.first
	s.first = nil
	s.mu.Unlock()
	if first != nil {
		return first, nil
	}
	return s.Client.Paths()
}
