package builtin

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	configmapstore "k8s.io/kubernetes/pkg/registry/core/configmap/storage"
	endpointstore "k8s.io/kubernetes/pkg/registry/core/endpoint/storage"
	eventstore "k8s.io/kubernetes/pkg/registry/core/event/storage"
	limitrangestore "k8s.io/kubernetes/pkg/registry/core/limitrange/storage"
	namespacestore "k8s.io/kubernetes/pkg/registry/core/namespace/storage"
	volumestore "k8s.io/kubernetes/pkg/registry/core/persistentvolume/storage"
	claimstore "k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim/storage"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	podtemplatestore "k8s.io/kubernetes/pkg/registry/core/podtemplate/storage"
	controllerstore "k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage"
	resourcequotastore "k8s.io/kubernetes/pkg/registry/core/resourcequota/storage"
	secretstore "k8s.io/kubernetes/pkg/registry/core/secret/storage"
	servicestore "k8s.io/kubernetes/pkg/registry/core/service/storage"
	serviceaccountstore "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/accounttokens"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/evictions"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/metrics"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/nodes"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// core is the core group. Upstream builds it in two halves, one of which brings
// the cluster-wide allocators and the kubelet client, and the other a store of
// service accounts whose tokens cannot be bound to pods; so each store is made
// here.
type core struct {
	config Config
	// used takes what metrics are served from.
	used *metrics.Config
}

func (core) GroupName() string { return api.GroupName }

func (c core) NewRESTStorage(_ serverstorage.APIResourceConfigSource, getter generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info := genericapiserver.NewDefaultAPIGroupInfo(api.GroupName, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
	m := map[string]rest.Storage{}
	for _, add := range []func(generic.RESTOptionsGetter, map[string]rest.Storage) error{
		c.objects, c.pods, c.nodes, c.serviceAccounts, c.services, c.volumes, c.others,
	} {
		if err := add(getter, m); err != nil {
			return info, err
		}
	}
	info.VersionedResourcesStorageMap["v1"] = m
	return info, nil
}

func (c core) objects(getter generic.RESTOptionsGetter, m map[string]rest.Storage) (err error) {
	if m["events"], err = eventstore.NewREST(getter, uint64(eventTTL.Seconds())); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	if m["secrets"], err = secretstore.NewREST(getter); err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	if m["configmaps"], err = configmapstore.NewREST(getter); err != nil {
		return fmt.Errorf("config maps: %w", err)
	}
	namespaces, status, finalize, err := namespacestore.NewREST(getter)
	if err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	m["namespaces"], m["namespaces/status"], m["namespaces/finalize"] = namespaces, status, finalize
	quotas, quotasStatus, err := resourcequotastore.NewREST(getter)
	if err != nil {
		return fmt.Errorf("resource quotas: %w", err)
	}
	m["resourcequotas"], m["resourcequotas/status"] = quotas, quotasStatus
	return nil
}

func (c core) pods(getter generic.RESTOptionsGetter, m map[string]rest.Storage) error {
	stored, err := podstore.NewStorage(getter, nil, http.DefaultTransport, c.config.Kube.PolicyV1(), c.config.Authorizer)
	if err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	m["pods"], m["pods/status"] = stored.Pod, stored.Status
	m["pods/ephemeralcontainers"], m["pods/resize"] = stored.EphemeralContainers, stored.Resize
	m["pods/binding"], m["bindings"] = stored.Binding, stored.LegacyBinding
	m["pods/eviction"] = evictions.NewREST(stored.Pod, stored.Status, c.config.Kube.PolicyV1())
	namespaces, ok := m["namespaces"].(rest.Getter)
	if !ok {
		return fmt.Errorf("namespaces: %T is no getter", m["namespaces"])
	}
	into := pods.Config{
		Pods: stored.Pod, Namespaces: namespaces, Copies: c.config.Copies, Authorizer: c.config.Authorizer,
		Reach: c.config.Reach, Streams: c.config.Streams, Backends: c.backends,
	}
	maps.Copy(m, into.Storage())
	c.used.Into, c.used.Pods = into, stored.Pod
	if c.config.DialPods != nil {
		c.config.DialPods(into.Dial)
	}
	return nil
}

// backends are the pods behind a Service of the logical cluster of ctx.
func (c core) backends(ctx context.Context, namespace, name, port string) ([]egress.Backend, error) {
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, scope.ErrNoCluster
	}
	return egress.Services{Kube: c.config.Kube, Cluster: cluster}.Backends(ctx, namespace, name, port)
}

func (c core) nodes(_ generic.RESTOptionsGetter, m map[string]rest.Storage) error {
	shown := nodes.NewREST(c.config.PhysicalClusters)
	m["nodes"], c.used.Nodes = shown, shown
	return nil
}

func (c core) serviceAccounts(getter generic.RESTOptionsGetter, m map[string]rest.Storage) error {
	secrets, ok := m["secrets"].(rest.Getter)
	if !ok {
		return fmt.Errorf("secrets: %T is no getter", m["secrets"])
	}
	accounts, err := serviceaccountstore.NewREST(getter, c.config.Tokens, c.config.Audiences, authorizerfactory.NewAlwaysDenyAuthorizer(), maxTokenLifetime,
		m["pods"].(rest.Getter), secrets, m["nodes"].(rest.Getter),
		noWebhooks[*admissionregistrationv1.ValidatingWebhookConfiguration]{"validatingwebhookconfigurations"},
		noWebhooks[*admissionregistrationv1.MutatingWebhookConfiguration]{"mutatingwebhookconfigurations"}, false, 0)
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	m["serviceaccounts"] = accounts
	m["serviceaccounts/token"] = accounttokens.NewREST(accounts.Token, accounts, c.config.Dynamic, c.config.Kinds)
	return nil
}

func (c core) services(getter generic.RESTOptionsGetter, m map[string]rest.Storage) error {
	pods, ok := m["pods"].(servicestore.PodStorage)
	if !ok {
		return fmt.Errorf("pods: %T is no getter", m["pods"])
	}
	getter = storage.WithIndexes(getter, map[string]func(runtime.Object) []string{addressIndex: indexed})
	stored, status, _, err := servicestore.NewREST(getter, families[0].IPFamily,
		allocators(), acceptPorts{mark: &atomic.Int32{}}, nil, pods, http.DefaultTransport)
	if err != nil {
		return fmt.Errorf("services: %w", err)
	}
	(&addresses{services: stored.Store, claims: c.config.Claims}).hook(stored.Store)
	m["services"], m["services/status"] = services{stored, c.config.Claims}, status
	return nil
}

func (c core) volumes(getter generic.RESTOptionsGetter, m map[string]rest.Storage) error {
	volumes, volumesStatus, err := volumestore.NewREST(getter)
	if err != nil {
		return fmt.Errorf("persistent volumes: %w", err)
	}
	claims, claimsStatus, err := claimstore.NewREST(getter)
	if err != nil {
		return fmt.Errorf("persistent volume claims: %w", err)
	}
	m["persistentvolumes"], m["persistentvolumes/status"] = volumes, volumesStatus
	m["persistentvolumeclaims"], m["persistentvolumeclaims/status"] = claims, claimsStatus
	return nil
}

func (c core) others(getter generic.RESTOptionsGetter, m map[string]rest.Storage) (err error) {
	if m["endpoints"], err = endpointstore.NewREST(getter); err != nil {
		return fmt.Errorf("endpoints: %w", err)
	}
	if m["limitranges"], err = limitrangestore.NewREST(getter); err != nil {
		return fmt.Errorf("limit ranges: %w", err)
	}
	if m["podtemplates"], err = podtemplatestore.NewREST(getter); err != nil {
		return fmt.Errorf("pod templates: %w", err)
	}
	controllers, err := controllerstore.NewStorage(getter)
	if err != nil {
		return fmt.Errorf("replication controllers: %w", err)
	}
	m["replicationcontrollers"], m["replicationcontrollers/status"] = controllers.Controller, controllers.Status
	m["replicationcontrollers/scale"] = controllers.Scale
	return nil
}

// noWebhooks: tokens bound to webhook configurations come with webhooks.
type noWebhooks[T any] struct{ resource string }

func (n noWebhooks[T]) Get(_ context.Context, name string, _ metav1.GetOptions) (T, error) {
	var zero T
	return zero, apierrors.NewNotFound(admissionregistrationv1.Resource(n.resource), name)
}
