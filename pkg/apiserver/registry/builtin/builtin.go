package builtin

import (
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	storagemigrationrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
	"k8s.io/kubernetes/pkg/serviceaccount"
	metricsv1 "k8s.io/metrics/pkg/apis/metrics/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/apiservices"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/metrics"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/nodes"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// eventTTL is how long events live, as upstream.
const eventTTL = time.Hour

// maxTokenLifetime bounds what a TokenRequest may ask for.
const maxTokenLifetime = 24 * time.Hour

// GroupVersions are the versions that are served.
func GroupVersions() []schema.GroupVersion {
	return []schema.GroupVersion{
		corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion,
		autoscalingv2.SchemeGroupVersion, autoscalingv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion,
		policyv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion, storagev1.SchemeGroupVersion,
		schedulingv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion,
		eventsv1.SchemeGroupVersion, admissionregistrationv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion,
		authorizationv1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion, nodev1.SchemeGroupVersion,
		apiregistrationv1.SchemeGroupVersion, flowcontrolv1.SchemeGroupVersion, resourcev1.SchemeGroupVersion, storagemigrationv1.SchemeGroupVersion,
		metricsv1.SchemeGroupVersion, metricsv1beta1.SchemeGroupVersion,
	}
}

// Reserved are the groups that no server of a user's may serve: those that have a
// version in resources, and that of CustomResourceDefinitions.
func Reserved(resources *serverstorage.ResourceConfig) sets.Set[string] {
	groups := sets.New(apiextensionsv1.GroupName)
	for gv := range resources.GroupVersionConfigs {
		groups.Insert(gv.Group)
	}
	return groups
}

// Config is what the registries need from the server.
type Config struct {
	Authenticator authenticator.Request
	Audiences     authenticator.Audiences
	// Authorizer decides requests, Reviewer what access reviews ask.
	Authorizer, Reviewer authorizer.Authorizer
	RuleResolver         authorizer.RuleResolver
	// PhysicalClusters is asked, once requests come, for what is shown as Nodes.
	PhysicalClusters func() nodes.Source
	// Copies is asked, once requests come, for the records of copies.
	Copies func() rest.Getter
	// Reach finds the way into the pods of a physical cluster, Streams counts who is there.
	Reach   pods.Reach
	Streams *pods.Streams
	// DialPods takes how the server itself connects to pods.
	DialPods func(egress.DialPod)
	// Tokens signs service account tokens for the logical cluster of its context.
	Tokens serviceaccount.TokenGenerator
	// Kube acts in the logical cluster of its context; registries read other
	// objects with it.
	Kube kubernetes.Interface
	// Dynamic does so with objects of any kind.
	Dynamic dynamic.Interface
	// Kinds are those that have copies.
	Kinds workload.Source
	// Claims keep addresses of Services to one request.
	Claims Claims
}

type provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// Groups makes the storage of all groups; the first is the core group.
func Groups(config Config, resources *serverstorage.ResourceConfig, getter generic.RESTOptionsGetter) ([]*genericapiserver.APIGroupInfo, error) {
	used := &metrics.Config{}
	providers := []provider{
		core{config: config, used: used},
		authentication{authenticationrest.RESTStorageProvider{Authenticator: config.Authenticator, APIAudiences: config.Audiences}},
		authorizationrest.RESTStorageProvider{Authorizer: config.Reviewer, RuleResolver: config.RuleResolver},
		autoscalingrest.RESTStorageProvider{},
		batchrest.RESTStorageProvider{},
		certificates{certificatesrest.RESTStorageProvider{Authorizer: config.Authorizer}},
		coordinationrest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		apiservices.Provider{Reserved: Reserved(resources)},
		flowcontrolrest.RESTStorageProvider{},
		networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		rbacrest.RESTStorageProvider{Authorizer: config.Authorizer},
		resourcerest.RESTStorageProvider{NamespaceClient: config.Kube.CoreV1().Namespaces(), Authorizer: config.Authorizer},
		schedulingrest.RESTStorageProvider{},
		storagerest.RESTStorageProvider{},
		storagemigrationrest.RESTStorageProvider{},
		// apps before admissionregistration: kubectl resolves short names in
		// the order of discovery.
		appsrest.StorageProvider{},
		admissionregistrationrest.RESTStorageProvider{Authorizer: config.Authorizer},
		eventsrest.RESTStorageProvider{TTL: eventTTL},
		// The last one: its pods and nodes are others than those that names mean.
		usage{used},
	}
	var groups []*genericapiserver.APIGroupInfo
	for _, p := range providers {
		info, err := p.NewRESTStorage(resources, getter)
		if err != nil {
			return nil, fmt.Errorf("storage of group %q: %w", p.GroupName(), err)
		}
		info.PrioritizedVersions = slices.DeleteFunc(slices.Clone(info.PrioritizedVersions), func(v schema.GroupVersion) bool {
			return len(info.VersionedResourcesStorageMap[v.Version]) == 0 // not served
		})
		groups = append(groups, &info)
	}
	return groups, nil
}
