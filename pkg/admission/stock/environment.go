package stock

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	nodev1client "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Config is what plugins are made with.
type Config struct {
	// Loopback acts as the system and takes the logical cluster from the context.
	Loopback *rest.Config
	// Viewers are informers of every type that a plugin reads.
	Viewers controller.Viewers
	// Authorizer answers for the logical cluster of the context.
	Authorizer authorizer.UnconditionalAuthorizer
	// Egress connects to what webhooks name.
	Egress *egress.Guard
	// Mapper knows the kinds of a logical cluster.
	Mapper func(context.Context, logicalcluster.Name) (meta.RESTMapper, error)
}

// Environment makes and initializes instances of plugins.
type Environment struct {
	config Config
	pinned *rest.Config
	http   *http.Client
}

// NewEnvironment checks config; it does no I/O.
func NewEnvironment(config Config) (*Environment, error) {
	if config.Loopback == nil || config.Viewers == nil || config.Authorizer == nil || config.Egress == nil || config.Mapper == nil {
		return nil, errors.New("stock admission needs a loopback configuration, informers, an authorizer, a guard of calls and a mapper")
	}
	e := &Environment{config: config, pinned: rest.CopyConfig(config.Loopback)}
	e.pinned.Wrap(func(next http.RoundTripper) http.RoundTripper { return unpin{next} })
	var err error
	if e.http, err = rest.HTTPClientFor(e.pinned); err != nil {
		return nil, fmt.Errorf("making the client of admission plugins: %w", err)
	}
	return e, nil
}

// pin is a configuration whose clients talk to one logical cluster, whatever
// their contexts say.
func (e *Environment) pin(c logicalcluster.Name) *rest.Config {
	return scope.PinnedConfig(e.pinned, scope.Scope{Cluster: c})
}

// unpin moves the scope of a pinned client from the path to the context, where
// the scoped transport below takes it from. The context of the caller may have
// another scope, or a view of a physical cluster; it does not count.
type unpin struct{ next http.RoundTripper }

func (u unpin) RoundTrip(req *http.Request) (*http.Response, error) {
	s, path, ok, err := scope.Cut(req.URL.Path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, scope.ErrNoCluster
	}
	req = req.Clone(scope.With(req.Context(), s))
	req.URL.Path, req.URL.RawPath = path, ""
	return u.next.RoundTrip(req)
}

func (u unpin) WrappedRoundTripper() http.RoundTripper { return u.next }

// setup initializes one instance; what is nil is not offered.
type setup struct {
	environment *Environment
	cluster     logicalcluster.Name
	factory     informers.SharedInformerFactory
	kube        kubernetes.Interface
	dynamic     dynamic.Interface
	mapper      meta.RESTMapper
	stop        <-chan struct{}
}

var _ admission.PluginInitializer = setup{}

// Initialize implements admission.PluginInitializer.
func (s setup) Initialize(plugin admission.Interface) {
	if p, ok := plugin.(initializer.WantsFeatures); ok {
		p.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	}
	if p, ok := plugin.(initializer.WantsUnconditionalAuthorizer); ok {
		p.SetUnconditionalAuthorizer(s.environment.config.Authorizer)
	}
	if p, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		p.SetExcludedAdmissionResources(exclusion.Excluded())
	}
	if p, ok := plugin.(initializer.WantsExternalKubeInformerFactory); ok && s.factory != nil {
		p.SetExternalKubeInformerFactory(s.factory)
	}
	if p, ok := plugin.(initializer.WantsExternalKubeClientSet); ok && s.kube != nil {
		p.SetExternalKubeClientSet(s.kube)
	}
	if p, ok := plugin.(initializer.WantsDynamicClient); ok && s.dynamic != nil {
		p.SetDynamicClient(s.dynamic)
	}
	if p, ok := plugin.(initializer.WantsRESTMapper); ok && s.mapper != nil {
		p.SetRESTMapper(s.mapper)
	}
	if p, ok := plugin.(initializer.WantsDrainedNotification); ok && s.stop != nil {
		p.SetDrainedNotification(s.stop)
	}
}

// full offers everything that there is for c; it costs some ten thousand bytes.
func (e *Environment) full(c logicalcluster.Name, factory *controller.Factory, stop <-chan struct{}) (setup, error) {
	s := setup{environment: e, cluster: c, factory: factory, stop: stop, mapper: mapper{c, e.config.Mapper}}
	var err error
	if s.kube, err = kubernetes.NewForConfigAndClient(e.pin(c), e.http); err != nil {
		return s, fmt.Errorf("making the clients of admission plugins: %w", err)
	}
	if s.dynamic, err = dynamic.NewForConfigAndClient(e.pin(c), e.http); err != nil {
		return s, fmt.Errorf("making the clients of admission plugins: %w", err)
	}
	return s, nil
}

// brief offers what plugins need that only read: views, and a client of the core
// and the node group.
func (e *Environment) brief(c logicalcluster.Name) setup {
	return setup{environment: e, cluster: c, factory: e.config.Viewers.For(c), kube: briefClient{environment: e, cluster: c}}
}

// briefClient makes the client of a group when it is asked for; groups that are
// not here panic.
type briefClient struct {
	kubernetes.Interface
	environment *Environment
	cluster     logicalcluster.Name
}

// CoreV1 implements kubernetes.Interface.
func (b briefClient) CoreV1() corev1client.CoreV1Interface {
	client, err := corev1client.NewForConfigAndClient(b.environment.pin(b.cluster), b.environment.http)
	if err != nil {
		panic(fmt.Sprintf("making a client from a configuration that made others: %v", err))
	}
	return client
}

// NodeV1 implements kubernetes.Interface.
func (b briefClient) NodeV1() nodev1client.NodeV1Interface {
	client, err := nodev1client.NewForConfigAndClient(b.environment.pin(b.cluster), b.environment.http)
	if err != nil {
		panic(fmt.Sprintf("making a client from a configuration that made others: %v", err))
	}
	return client
}
