package apiserver

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"github.com/atoll-dev/atoll/pkg/apis/install"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/builtin"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	atollopenapi "github.com/atoll-dev/atoll/pkg/generated/openapi"
)

const (
	etcdPrefix   = "/registry"
	gvkExtension = "x-kubernetes-group-version-kind"
	// The limits of requests in flight keep a runaway client from taking all
	// memory. Watches do not count; requests that the server makes to itself do.
	maxReadsInFlight  = 4000
	maxWritesInFlight = 2000
)

func init() {
	install.Install(legacyscheme.Scheme)
	// Whether a privileged container may run is up to the physical cluster.
	capabilities.Setup(true, 0)
}

// genericConfig is upstream's configuration with our scope, storage and serving.
func (c Config) genericConfig() (*genericapiserver.Config, error) {
	g := genericapiserver.NewConfig(legacyscheme.Codecs)
	g.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	g.MergedResourceConfig = resourceConfig()
	g.MaxRequestsInFlight, g.MaxMutatingRequestsInFlight = maxReadsInFlight, maxWritesInFlight
	g.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	if err := c.serving(g); err != nil {
		return nil, err
	}

	namer := openapinamer.NewDefinitionNamer(legacyscheme.Scheme)
	g.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openAPIDefinitions, namer)
	g.OpenAPIConfig.Info.Title = "Kubernetes"
	g.OpenAPIConfig.GetDefinitionName = withoutInternal(g.OpenAPIConfig.GetDefinitionName)
	g.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openAPIDefinitions, namer)
	g.OpenAPIV3Config.Info.Title = "Kubernetes"
	g.OpenAPIV3Config.GetDefinitionName = withoutInternal(g.OpenAPIV3Config.GetDefinitionName)

	return g, c.storage(g)
}

func (c Config) serving(g *genericapiserver.Config) error {
	address, ok := c.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("listening on %s: an IP address is needed", c.Listener.Addr())
	}
	o := genericoptions.NewSecureServingOptions()
	o.Listener, o.BindAddress, o.BindPort = c.Listener, address.IP, address.Port
	o.ServerCert.CertKey = genericoptions.CertKey{CertFile: c.CertFile, KeyFile: c.KeyFile}
	o.ServerCert.CertDirectory = filepath.Dir(c.CertFile)
	if err := o.WithLoopback().ApplyToConfig(g); err != nil {
		return fmt.Errorf("configuring TLS: %w", err)
	}
	ca, err := dynamiccertificates.NewStaticCAContent("client-ca", c.PKI.CAPEM)
	if err != nil {
		return fmt.Errorf("reading the certificate authority: %w", err)
	}
	if err := g.Authentication.ApplyClientCert(ca, g.SecureServing); err != nil {
		return fmt.Errorf("configuring client certificates: %w", err)
	}
	g.PublicAddress = address.IP
	g.ExternalAddress = address.String()
	g.LoopbackClientConfig.QPS = -1
	g.LoopbackClientConfig.WarningHandler = restclient.NoWarnings{} // warnings are for users
	g.LoopbackClientConfig.DisableCompression = true
	return nil
}

func (c Config) storage(g *genericapiserver.Config) error {
	o := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig(etcdPrefix, nil))
	o.StorageConfig.Transport.ServerList = c.EtcdServers
	o.StorageConfig.Transport.CertFile, o.StorageConfig.Transport.KeyFile = c.EtcdCertFile, c.EtcdKeyFile
	o.StorageConfig.Transport.TrustedCAFile = c.EtcdCAFile
	o.StorageConfig.StorageObjectCountTracker = g.StorageObjectCountTracker
	o.DefaultStorageMediaType = apiruntime.ContentTypeProtobuf

	fc := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(g.EffectiveVersion)
	fc.APIResourceConfig = g.MergedResourceConfig
	factory, err := fc.Complete(o).New()
	if err != nil {
		return fmt.Errorf("configuring the storage: %w", err)
	}
	for _, k := range native.Kinds() { // our types have no protobuf encoding
		gr := schema.GroupResource{Group: k.Group, Resource: k.Plural}
		factory.SetSerializer(gr, apiruntime.ContentTypeJSON, nil)
	}
	if err := o.ApplyWithStorageFactoryTo(factory, g); err != nil {
		return fmt.Errorf("configuring the storage: %w", err)
	}
	g.RESTOptionsGetter = storage.NewRESTOptionsGetter(g.RESTOptionsGetter, storage.Options{})
	return nil
}

func (c Config) authentication(g *genericapiserver.Config, tokens *auth.Tokens) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.PKI.CAPEM) {
		return fmt.Errorf("reading the certificate authority: no certificate found")
	}
	g.Authentication.APIAudiences = authenticator.Audiences{auth.Audience}
	g.Authentication.Authenticator = auth.NewAuthenticator(pool, tokens)
	return nil
}

func handlerChain(exists existsFunc) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, g *genericapiserver.Config) http.Handler {
		return WithScope(genericapiserver.DefaultBuildHandlerChain(withExisting(api, exists), g))
	}
}

func resourceConfig() *serverstorage.ResourceConfig {
	r := serverstorage.NewResourceConfig()
	r.EnableVersions(builtin.GroupVersions()...)
	r.EnableVersions(install.GroupVersions()...)
	return r
}

func openAPIDefinitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	definitions := generatedopenapi.GetOpenAPIDefinitions(ref)
	for name, d := range atollopenapi.GetOpenAPIDefinitions(ref) {
		if _, ok := definitions[name]; !ok {
			definitions[name] = d
		}
	}
	return definitions
}

// withoutInternal drops the internal version, for which our types are registered
// too, from the kinds that a definition claims to be.
func withoutInternal(next func(string) (string, spec.Extensions)) func(string) (string, spec.Extensions) {
	return func(name string) (string, spec.Extensions) {
		friendly, extensions := next(name)
		kinds, ok := extensions[gvkExtension].([]any)
		if !ok {
			return friendly, extensions
		}
		extensions[gvkExtension] = slices.DeleteFunc(slices.Clone(kinds), func(kind any) bool {
			m, ok := kind.(map[string]any)
			return ok && m["version"] == apiruntime.APIVersionInternal
		})
		return friendly, extensions
	}
}
