package apiserver

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
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
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"github.com/atoll-dev/atoll/pkg/apis/install"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/builtin"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/apiserver/series"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	atollopenapi "github.com/atoll-dev/atoll/pkg/generated/openapi"
)

const (
	etcdPrefix   = "/registry"
	gvkExtension = "x-kubernetes-group-version-kind"
	// concurrencyLimit is how many requests of tenants and syncers run at a time: as many as a
	// kube-apiserver has. Those of admins and of the server itself do not count.
	concurrencyLimit = 600
)

func init() {
	install.Install(legacyscheme.Scheme)
	// Whether a privileged container may run is up to the physical cluster.
	capabilities.Setup(true, 0)
}

// genericConfig is upstream's configuration with our scope, storage and serving.
func (c Config) genericConfig(etcd *storage.Clients, counts *storage.Counts) (*genericapiserver.Config, error) {
	series.Bound(append(append(builtin.GroupVersions(), install.GroupVersions()...), apiextensionsv1.SchemeGroupVersion),
		legacyscheme.Scheme, apiextensionsapiserver.Scheme)
	g := genericapiserver.NewConfig(legacyscheme.Codecs)
	g.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	g.MergedResourceConfig = resourceConfig()
	g.StorageObjectCountTracker = fairness.NoCounts{}
	g.LongRunningFunc = genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	if err := c.serving(g); err != nil {
		return nil, err
	}

	namer := openapinamer.NewDefinitionNamer(legacyscheme.Scheme, apiextensionsapiserver.Scheme)
	g.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openAPIDefinitions, namer)
	g.OpenAPIConfig.Info.Title = "Kubernetes"
	g.OpenAPIConfig.GetDefinitionName = withoutInternal(g.OpenAPIConfig.GetDefinitionName)
	g.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openAPIDefinitions, namer)
	g.OpenAPIV3Config.Info.Title = "Kubernetes"
	g.OpenAPIV3Config.GetDefinitionName = withoutInternal(g.OpenAPIV3Config.GetDefinitionName)
	// Upstream's own, which is a closure over the first document that is built, and keeps
	// the definitions of all types for as long as the configuration lives.
	g.OpenAPIV3Config.GetOperationIDAndTagsFromRoute = operationOfRoute

	g.SkipOpenAPIInstallation = true // see discovery.BuiltinOpenAPI

	// Watches end when the server is told to; by default each holds it for a minute,
	// and whoever runs it kills it before.
	g.ShutdownWatchTerminationGracePeriod = watchTerminationGracePeriod
	// Then requests in flight are answered before the port is closed.
	g.ShutdownDelayDuration, g.ShutdownSendRetryAfter = c.ShutdownDelay, c.ShutdownDelay > 0

	return g, c.storage(g, etcd, counts)
}

// watchTerminationGracePeriod bounds how long a server that ends waits for the
// watches that it has ended.
const watchTerminationGracePeriod = 5 * time.Second

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
	// A client looks at these names to choose among its certificates.
	for name, pem := range map[string][]byte{"client-ca": c.PKI.CAPEM, "tenants-ca": c.PKI.TenantsCAPEM} {
		ca, err := dynamiccertificates.NewStaticCAContent(name, pem)
		if err != nil {
			return fmt.Errorf("reading the certificate authority: %w", err)
		}
		if err := g.Authentication.ApplyClientCert(ca, g.SecureServing); err != nil {
			return fmt.Errorf("configuring client certificates: %w", err)
		}
	}
	g.PublicAddress = address.IP
	g.ExternalAddress = address.String()
	g.LoopbackClientConfig.QPS = -1
	g.LoopbackClientConfig.WarningHandler = restclient.NoWarnings{} // warnings are for users
	g.LoopbackClientConfig.DisableCompression = true
	return nil
}

// backend says where etcd is.
func (c Config) backend() *storagebackend.Config {
	b := storagebackend.NewDefaultConfig(etcdPrefix, nil)
	b.Transport.ServerList = c.EtcdServers
	b.Transport.CertFile, b.Transport.KeyFile, b.Transport.TrustedCAFile = c.EtcdCertFile, c.EtcdKeyFile, c.EtcdCAFile
	return b
}

// etcdClients call an etcd in this process, or connect to another one.
func (c Config) etcdClients() (*storage.Clients, error) {
	backend := c.backend()
	if c.Etcd != nil {
		return storage.NewLocalClients(c.Etcd, backend.CompactionInterval), nil
	}
	return storage.NewClients(backend.Transport, backend.CompactionInterval)
}

// etcdOptions say where etcd is and how objects are kept there.
func (c Config) etcdOptions(g *genericapiserver.Config) *genericoptions.EtcdOptions {
	o := genericoptions.NewEtcdOptions(c.backend())
	o.StorageConfig.StorageObjectCountTracker = g.StorageObjectCountTracker
	return o
}

func (c Config) storage(g *genericapiserver.Config, etcd *storage.Clients, counts *storage.Counts) error {
	o := c.etcdOptions(g)
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
	g.RESTOptionsGetter = storage.NewRESTOptionsGetter(g.RESTOptionsGetter, storage.Options{Maps: c.Maps, Raw: etcd.Raw, Counts: counts, Lazy: etcd})
	return nil
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

func operationOfRoute(r openapicommon.Route) (string, []string, error) {
	route, ok := r.(*restfuladapter.RouteAdapter)
	if !ok {
		return "", nil, fmt.Errorf("unexpected route %T", r)
	}
	return openapinamer.GetOperationIDAndTags(route.Route)
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
