package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver/aggregation"
	"github.com/atoll-dev/atoll/pkg/apiserver/buffers"
	"github.com/atoll-dev/atoll/pkg/apiserver/crds"
	"github.com/atoll-dev/atoll/pkg/apiserver/discovery"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

// CustomResources is what runs for the resources that users define.
type CustomResources struct {
	Definitions *crds.Definitions
	Documents   *discovery.Documents

	client    clientset.Interface
	storage   *storage.Custom
	handler   *crds.Handler
	lifecycle *crds.Lifecycle
	finalizer *crds.Finalizer
	getter    generic.RESTOptionsGetter
	egress    *egress.Guard
	kube      kubernetes.Interface
	// aggregation serves versions of groups in place of definitions.
	aggregation *aggregation.Aggregation
}

// newCustomResources makes the parts that exist before the server does.
func newCustomResources(c Config, g *genericapiserver.Config, etcd *storage.Clients, loopback *restclient.Config, kube kubernetes.Interface) (*CustomResources, error) {
	client, err := clientset.NewForConfig(loopback)
	if err != nil {
		return nil, fmt.Errorf("making the client of CustomResourceDefinitions: %w", err)
	}
	r := &CustomResources{client: client, Definitions: crds.NewDefinitions(client, c.Maps), egress: c.Egress, kube: kube}

	options := c.etcdOptions(g)
	options.StorageConfig.Codec = crds.SharingCodec(apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	options.StorageConfig.EncodeVersioner = apiruntime.NewMultiGroupVersioner(apiextensionsv1.SchemeGroupVersion)
	r.getter = storage.NewRESTOptionsGetter(
		options.CreateRESTOptionsGetter(&genericoptions.SimpleStorageFactory{StorageConfig: options.StorageConfig}, g.ResourceTransformers), storage.Options{Maps: c.Maps, Raw: etcd.Raw, Lazy: etcd})

	r.storage = storage.NewCustom(crdoptions.NewCRDRESTOptionsGetter(*c.etcdOptions(g), g.ResourceTransformers, g.StorageObjectCountTracker), etcd.Client(), storage.Options{Maps: c.Maps, Raw: etcd.Raw})
	return r, nil
}

// delegate serves what no built-in resource has the path of.
func (r *CustomResources) delegate() http.Handler {
	return r.aggregation.With(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.handler.ServeHTTP(w, req) }))
}

// install puts the group of CustomResourceDefinitions into the server, and makes
// what needs the server.
func (r *CustomResources) install(server *genericapiserver.GenericAPIServer, g *genericapiserver.Config) error {
	info, err := crds.APIGroup(r.getter, r.Definitions)
	if err != nil {
		return fmt.Errorf("making the group of CustomResourceDefinitions: %w", err)
	}
	info.NegotiatedSerializer = buffers.Serializer(info.NegotiatedSerializer)
	if err := server.InstallAPIGroup(info); err != nil {
		return fmt.Errorf("installing the group of CustomResourceDefinitions: %w", err)
	}
	r.handler = crds.NewHandler(r.Definitions, crds.ServingConfig{
		Delegate:    notfoundhandler.New(server.Serializer, filters.NoMuxAndDiscoveryIncompleteKey),
		RESTOptions: r.storage, Admission: g.AdmissionControl, Authorizer: server.Authorizer,
		Services: func(c logicalcluster.Name) webhook.ServiceResolver {
			return egress.Services{Kube: r.kube, Cluster: c}
		},
		Authentication: func(c logicalcluster.Name) webhook.AuthenticationInfoResolverWrapper {
			return r.egress.Webhooks(egress.Services{Kube: r.kube, Cluster: c})
		},
		RequestTimeout: g.RequestTimeout, MinRequestTimeout: time.Duration(g.MinRequestTimeout) * time.Second,
		MaxRequestBytes: g.MaxRequestBodyBytes, OpenAPI: info.StaticOpenAPISpec,
	})
	server.RegisterDestroyFunc(r.storage.Close)
	// Now all groups are in: the last one that needed the types was this.
	openAPI := discovery.NewBuiltinOpenAPI(server.Handler.GoRestfulContainer, g.OpenAPIConfig, g.OpenAPIV3Config)
	openAPI.Install(server)
	r.Documents = discovery.New(server, openAPI, r.aggregation, crds.Source{Definitions: r.Definitions})
	r.lifecycle = crds.NewLifecycle(r.client, r.Definitions)
	r.finalizer = crds.NewFinalizer(r.client, r.handler)
	r.Definitions.Follow(func(schema.GroupVersionResource) {}, func(gvr schema.GroupVersionResource) {
		r.storage.Forget(gvr.GroupResource())
	})
	return nil
}

// Run serves and keeps what is defined until ctx ends.
func (r *CustomResources) Run(ctx context.Context) {
	go r.lifecycle.Run(ctx)
	go r.finalizer.Run(ctx)
	r.Definitions.Run(ctx)
}

// WaitForSync returns when all definitions are known.
func (r *CustomResources) WaitForSync(ctx context.Context) error {
	return r.Definitions.WaitForSync(ctx)
}
