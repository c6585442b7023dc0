package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	k8smetadata "k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/admission"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/loopback"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controllers/admissionpolicies"
	"github.com/atoll-dev/atoll/pkg/controllers/certificates"
	"github.com/atoll-dev/atoll/pkg/controllers/clusterroles"
	"github.com/atoll-dev/atoll/pkg/controllers/copies"
	"github.com/atoll-dev/atoll/pkg/controllers/endpoints"
	"github.com/atoll-dev/atoll/pkg/controllers/garbagecollector"
	"github.com/atoll-dev/atoll/pkg/controllers/imports"
	"github.com/atoll-dev/atoll/pkg/controllers/logicalclusters"
	"github.com/atoll-dev/atoll/pkg/controllers/mirrors"
	"github.com/atoll-dev/atoll/pkg/controllers/namespaces"
	"github.com/atoll-dev/atoll/pkg/controllers/orphans"
	"github.com/atoll-dev/atoll/pkg/controllers/physicalclusters"
	"github.com/atoll-dev/atoll/pkg/controllers/placedkinds"
	"github.com/atoll-dev/atoll/pkg/controllers/podadmission"
	"github.com/atoll-dev/atoll/pkg/controllers/presence"
	"github.com/atoll-dev/atoll/pkg/controllers/references"
	"github.com/atoll-dev/atoll/pkg/controllers/resourcequota"
	"github.com/atoll-dev/atoll/pkg/controllers/serviceaccounts"
	"github.com/atoll-dev/atoll/pkg/controllers/sharedkeys"
	"github.com/atoll-dev/atoll/pkg/controllers/status"
	"github.com/atoll-dev/atoll/pkg/controllers/tokens"
	"github.com/atoll-dev/atoll/pkg/controllers/volumecopies"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	placement "github.com/atoll-dev/atoll/pkg/placement/controller"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/sharing"
	podwebhook "github.com/atoll-dev/atoll/pkg/syncer/agent/podadmission"
	"github.com/atoll-dev/atoll/pkg/syncer/push"
	"github.com/atoll-dev/atoll/pkg/tunnel"
	"github.com/atoll-dev/atoll/pkg/wire"
)

// composition joins clients, informers, admission and controllers. Its parts
// come into being in this order: clients and typed informers (when the server is
// made, before it serves), then what needs discovery (when it serves).
type composition struct {
	url string
	// podsServer is the URL for pods, empty if there is none.
	podsServer string
	kinds      *placedkinds.Catalog
	keys       *pki.PKI
	// keysDir is where the keys are; replaceKeys makes them those of the control plane.
	keysDir     string
	replaceKeys bool
	egress      *egress.Guard
	// maps has the labels and annotations of everything in the process.
	maps *sharing.Maps

	kube     kubernetes.Interface
	client   versioned.Interface
	dynamic  dynamic.Interface
	metadata k8smetadata.Interface

	namespaces       *controller.Informer[*corev1.Namespace]
	logicalClusters  *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	physicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	placements       *controller.Informer[*placementv1alpha1.Placement]
	policies         *controller.Informer[*placementv1alpha1.ClusterPlacementPolicy]
	nsPolicies       *controller.Informer[*placementv1alpha1.PlacementPolicy]
	copies           *controller.Informer[*placementv1alpha1.Copy]
	orphans          *controller.Informer[*fleetv1alpha1.Orphan]
	placedKinds      *controller.Informer[*fleetv1alpha1.PlacedKind]
	leases           *controller.Informer[*coordinationv1.Lease]
	serviceAccounts  *controller.Informer[*corev1.ServiceAccount]
	// objects has the metadata of all objects, from the start on.
	objects atomic.Pointer[controller.Metadata]

	// streams are those into pods, links and tunnels the ways there.
	streams *pods.Streams
	links   *push.Links
	tunnels *tunnel.Pool
	// advertise is where other servers reach this one; empty if it stands alone. presence knows
	// them.
	advertise string
	presence  *presence.Controller
	// admits is where physical clusters of links ask about pods; nil if they do not.
	admits *podwebhook.Server
	// standstill has for how long this process stood still.
	standstill *controller.Standstill
	// refusals are the syncers that this server does not work with.
	refusals *physicalclusters.Refusals

	chain        *admission.Chain
	late         late
	controlPlane controlPlane
	running      sync.WaitGroup
}

// runner is a controller or an informer.
type runner interface{ Run(context.Context) }

// admission makes the clients and informers that the admission chain needs, and
// the chain.
func (c *composition) admission(config *restclient.Config) (_ k8sadmission.Interface, err error) {
	if err := c.clients(config); err != nil {
		return nil, err
	}
	c.namespaces = controller.NewInformer("namespaces", &corev1.Namespace{},
		controller.Lists(c.kube.CoreV1().Namespaces()), controller.InformerOptions[*corev1.Namespace]{
			Maps: c.maps, Thin: activeNamespace, Meta: func(n *corev1.Namespace) *metav1.ObjectMeta { return &n.ObjectMeta },
		})
	c.logicalClusters = controller.NewInformer("logicalclusters", &tenancyv1alpha1.LogicalCluster{},
		controller.Lists(c.client.TenancyV1alpha1().LogicalClusters()), controller.InformerOptions[*tenancyv1alpha1.LogicalCluster]{Maps: c.maps})
	c.physicalClusters = controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{},
		controller.Lists(c.client.FleetV1alpha1().PhysicalClusters()), controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{Maps: c.maps})
	c.placements = controller.NewInformer("placements", &placementv1alpha1.Placement{},
		controller.Lists(c.client.PlacementV1alpha1().Placements("")), controller.InformerOptions[*placementv1alpha1.Placement]{Indexers: placement.Indexers(), Maps: c.maps})
	c.policies = controller.NewInformer("policies", &placementv1alpha1.ClusterPlacementPolicy{},
		controller.Lists(c.client.PlacementV1alpha1().ClusterPlacementPolicies()), controller.InformerOptions[*placementv1alpha1.ClusterPlacementPolicy]{Maps: c.maps})
	c.nsPolicies = controller.NewInformer("namespacepolicies", &placementv1alpha1.PlacementPolicy{},
		controller.Lists(c.client.PlacementV1alpha1().PlacementPolicies("")), controller.InformerOptions[*placementv1alpha1.PlacementPolicy]{Maps: c.maps})
	c.copies = controller.NewInformer("copies", &placementv1alpha1.Copy{},
		controller.Lists(c.client.PlacementV1alpha1().Copies("")), controller.InformerOptions[*placementv1alpha1.Copy]{Indexers: copyindex.Indexers(), Maps: c.maps})
	c.orphans = controller.NewInformer("orphans", &fleetv1alpha1.Orphan{},
		controller.Lists(c.client.FleetV1alpha1().Orphans()), controller.InformerOptions[*fleetv1alpha1.Orphan]{Indexers: orphans.Indexers(), Maps: c.maps})
	c.placedKinds = controller.NewInformer("placedkinds", &fleetv1alpha1.PlacedKind{},
		controller.Lists(c.client.FleetV1alpha1().PlacedKinds()), controller.InformerOptions[*fleetv1alpha1.PlacedKind]{Maps: c.maps})
	c.kinds.Follow(c.placedKinds, c.logicalClusters)
	c.leases = controller.NewInformer("leases", &coordinationv1.Lease{},
		controller.Lists(c.kube.CoordinationV1().Leases("")), controller.InformerOptions[*coordinationv1.Lease]{Maps: c.maps})
	c.serviceAccounts = controller.NewInformer("serviceaccounts", &corev1.ServiceAccount{},
		controller.Lists(c.kube.CoreV1().ServiceAccounts("")), controller.InformerOptions[*corev1.ServiceAccount]{Transform: withSecrets})
	if c.advertise != "" {
		c.presence = presence.New(presence.Config{Kube: c.kube, Address: c.advertise, Leases: c.leases.List})
	}
	c.controlPlane.client = c.client
	c.standstill = controller.NewStandstill(clock.RealClock{})
	c.links = push.NewLinks(c.kube)
	if c.chain, err = c.newChain(config, admission.Config{
		Kube: c.kube, Client: c.client, Metadata: c.metadata, Dynamic: c.dynamic,
		Namespaces: c.namespaces, PhysicalClusters: c.physicalClusters, Placements: c.placements, LogicalClusters: c.logicalClusters, Policies: c.policies, NamespacePolicies: c.nsPolicies,
		ControlPlane: c.controlPlane.id, Kinds: c.kinds, Objects: c.objects.Load, Copies: c.copies, Stored: c.late.reader, Standstill: c.standstill,
	}); err != nil {
		return nil, err
	}
	return c.chain, nil
}

// activeNamespace is a namespace as most are: each logical cluster has four that nobody
// ever changes.
func activeNamespace(m metav1.ObjectMeta) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: m,
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// withSecrets keeps the service accounts that give pods Secrets; few do.
func withSecrets(obj runtime.Object) (*corev1.ServiceAccount, error) {
	account, ok := obj.(*corev1.ServiceAccount)
	if !ok {
		return nil, fmt.Errorf("%T is no service account", obj)
	}
	if len(account.ImagePullSecrets) == 0 && len(account.Secrets) == 0 {
		return nil, nil
	}
	return account, nil
}

func (c *composition) clients(config *restclient.Config) (err error) {
	if c.kube, err = kubernetes.NewForConfig(loopback.BuiltIn(config)); err != nil {
		return fmt.Errorf("making the loopback clients: %w", err)
	}
	if c.client, err = versioned.NewForConfig(config); err != nil {
		return fmt.Errorf("making the loopback clients: %w", err)
	}
	if c.dynamic, err = wire.NewDynamic(config); err != nil {
		return fmt.Errorf("making the loopback clients: %w", err)
	}
	if c.metadata, err = k8smetadata.NewForConfig(config); err != nil {
		return fmt.Errorf("making the loopback clients: %w", err)
	}
	return nil
}

// bootstrap makes the first objects of a logical cluster.
func (c *composition) bootstrap(ctx context.Context, name logicalcluster.Name) error {
	return logicalclusters.Bootstrap(ctx, c.logicalClusterConfig(nil, nil), name)
}

func (c *composition) logicalClusterConfig(all *controller.Metadata, s *served) logicalclusters.Config {
	config := logicalclusters.Config{
		Client: c.client, Kube: c.kube, MetadataClient: c.metadata, Metadata: all, Clusters: c.logicalClusters,
		Fill: func(ctx context.Context, namespace string) error {
			return serviceaccounts.Fill(ctx, c.kube, c.keys.CAPEM, namespace)
		},
		URL: func(name logicalcluster.Name) string { return c.url + scope.Scope{Cluster: name}.Path() },
	}
	if s != nil {
		config.Discover = s.resources
	}
	return config
}

// start runs everything until ctx ends, and returns when the server can be used:
// roles and informers are in, "root" and the logical clusters of names exist.
func (c *composition) start(ctx context.Context, server *apiserver.Server, names []string) error {
	c.run(ctx, server.RBAC)
	c.run(ctx, server.Custom)
	c.run(ctx, server.Aggregation)
	s, err := discover(server.Generic.LoopbackClientConfig, server.Custom.Documents, server.Custom.Definitions)
	if err != nil {
		return err
	}
	c.late.set(server, s.restMapper)
	all := controller.NewMetadata(c.metadata, s.watchable(), garbagecollector.Indexers(), c.sources()...)
	all.Share(c.maps)
	all.Omit(placementv1alpha1.FormerAnnotation)
	c.objects.Store(all)
	c.run(ctx, followDefined(server.Custom.Definitions, all))
	c.kinds.Consult(defined{server.Custom.Definitions})
	informers := []interface {
		runner
		WaitForSync(context.Context) error
	}{c.namespaces, c.logicalClusters, c.physicalClusters, c.placements, c.policies, c.nsPolicies, c.copies, c.orphans, c.placedKinds, c.leases, c.serviceAccounts, all, c.chain}
	for _, i := range informers {
		c.run(ctx, i)
	}
	for _, i := range informers {
		if err := i.WaitForSync(ctx); err != nil {
			return fmt.Errorf("waiting for the informers: %w", err)
		}
	}
	if err := server.RBAC.WaitForSync(ctx); err != nil {
		return err
	}
	if err := server.Custom.WaitForSync(ctx); err != nil {
		return err
	}
	if err := server.Aggregation.WaitForSync(ctx); err != nil {
		return err
	}
	server.Deletions.Follow(all)
	server.Aggregation.Follow(all.For(corev1.SchemeGroupVersion.WithResource("services")), all.For(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")))
	c.physicalClusters.Handle(c.endStreams)
	c.physicalClusters.Handle(server.Watches.Changed)
	clusters := c.logicalClusterConfig(all, s)
	if err := logicalclusters.EnsureRoot(ctx, clusters); err != nil {
		return err
	}
	if err := c.ensureKeys(ctx); err != nil {
		return err
	}
	if c.presence != nil {
		c.run(ctx, c.presence)
	}
	declared := placedkinds.New(placedkinds.Config{Client: c.client, Metadata: c.metadata, Catalog: c.kinds, Definitions: defined{server.Custom.Definitions},
		Kinds: c.placedKinds, PhysicalClusters: c.physicalClusters, LogicalClusters: c.logicalClusters, Placements: c.placements, Copies: c.copies, Objects: all})
	server.Custom.Definitions.Handle(definitionChanged(declared.Defined))
	for _, r := range []runner{
		c.standstill, declared,
		namespaces.New(namespaces.Config{Kube: c.kube, Client: c.metadata, Kinds: c.kinds, Metadata: all, Discover: s.resources,
			Elsewhere: server.Aggregation, Clusters: c.logicalClusters}),
		clusterroles.New(clusterroles.Config{Kube: c.kube, Roles: server.RBAC.ClusterRoles(), Defaults: server.RBAC.Defaults().ClusterRoles}),
		serviceaccounts.New(serviceaccounts.Config{Kube: c.kube, Metadata: all, RootCA: c.keys.CAPEM}),
		tokens.New(tokens.Config{Kube: c.kube, Metadata: all, Sign: server.Tokens.ForSecret, RootCA: c.keys.CAPEM}),
		certificates.New(certificates.Config{Kube: c.kube, Client: c.client, Sign: c.keys.SignTenant, SignSyncer: c.keys.SignSyncer}),
		admissionpolicies.New(admissionpolicies.Config{Kube: c.kube, Policies: c.chain.Informers().ValidatingPolicies,
			Loopback: server.Generic.LoopbackClientConfig, Mapper: s.restMapper}),
		podadmission.New(podadmission.Config{Metadata: c.metadata, Namespaces: c.namespaces, Rules: c.podRules,
			MutatingWebhooks: c.chain.Informers().MutatingWebhooks, ValidatingWebhooks: c.chain.Informers().ValidatingWebhooks,
			MutatingPolicies: c.chain.Informers().MutatingPolicies, MutatingBindings: c.chain.Informers().MutatingBindings,
			ValidatingPolicies: c.chain.Informers().ValidatingPolicies, ValidatingBindings: c.chain.Informers().ValidatingBindings}),
		resourcequota.New(resourcequota.Config{Kube: c.kube, Quotas: c.chain.Informers().Quotas, Metadata: all}),
		garbagecollector.New(garbagecollector.Config{Client: c.metadata, Metadata: all, Mapper: s.restMapper}),
		endpoints.New(endpoints.Config{Kube: c.kube, Metadata: all}),
		imports.New(imports.Config{Kube: c.kube, Client: c.client, Objects: all, Namespaces: c.namespaces, PhysicalClusters: c.physicalClusters}),
		logicalclusters.New(clusters),
		placement.New(placement.Config{Kube: c.kube, Client: c.client, Metadata: c.metadata, Dynamic: c.dynamic, Kinds: c.kinds, Namespaces: c.namespaces,
			PhysicalClusters: c.physicalClusters, LogicalClusters: c.logicalClusters, Policies: c.policies, NamespacePolicies: c.nsPolicies, Placements: c.placements, Copies: c.copies, Objects: all,
			Answer: reach.NewAsker(c.present).Answer, Standstill: c.standstill}),
		references.New(references.Config{Dynamic: c.dynamic, Metadata: c.metadata, Kinds: c.kinds, Objects: all, ServiceAccounts: c.serviceAccounts}),
		physicalclusters.New(physicalclusters.Config{Kube: c.kube, Client: c.client, PhysicalClusters: c.physicalClusters, Leases: c.leases,
			Copies: c.copies, Placements: c.placements, Kinds: c.kinds, Objects: all, ControlPlane: c.controlPlane.id, PodsServer: c.podsServer, CA: c.keys.CAPEM, Refusals: c.refusals, Standstill: c.standstill}),
		orphans.New(orphans.Config{Client: c.client, Metadata: c.metadata, Kinds: c.kinds, Orphans: c.orphans, PhysicalClusters: c.physicalClusters}),
		status.New(status.Config{Dynamic: c.dynamic, Kinds: c.kinds, Copies: c.copies, Metadata: all, PhysicalClusters: c.physicalClusters}),
		copies.New(copies.Config{Client: c.client, MetadataClient: c.metadata, Dynamic: c.dynamic, Kinds: c.kinds, Copies: c.copies, Metadata: all, PhysicalClusters: c.physicalClusters}),
		mirrors.New(mirrors.Config{Client: c.client, MetadataClient: c.metadata, Kinds: c.kinds, Metadata: all, PhysicalClusters: c.physicalClusters}),
		volumecopies.New(volumecopies.Config{Client: c.client, Metadata: c.metadata, Copies: c.copies, PhysicalClusters: c.physicalClusters, Reach: c.reachVolumes}),
		push.New(push.Config{Client: c.client, Kube: c.kube, Kinds: c.kinds.Current().Undeclared(), PhysicalClusters: c.physicalClusters,
			Secrets: all.For(corev1.SchemeGroupVersion.WithResource("secrets")), Upstream: server.Generic.LoopbackClientConfig, Admission: c.admits}),
	} {
		c.run(ctx, r)
	}
	return c.ensureLogicalClusters(ctx, names)
}

// ensureKeys comes before the controllers, which write what they have of the keys into
// each namespace.
func (c *composition) ensureKeys(ctx context.Context) error {
	digests, err := c.keys.Digests()
	if err != nil {
		return err
	}
	return sharedkeys.Ensure(ctx, sharedkeys.Config{Kube: c.kube, Directory: c.keysDir, Digests: digests, Replace: c.replaceKeys})
}

// podRules are the rules about pods of a logical cluster.
func (c *composition) podRules(cluster logicalcluster.Name) podadmission.Rules {
	return c.chain.Informers().PodRules(cluster)
}

func (c *composition) run(ctx context.Context, r runner) {
	c.running.Go(func() { r.Run(ctx) })
}

// wait returns when everything that start ran has ended.
func (c *composition) wait() { c.running.Wait() }

func (c *composition) ensureLogicalClusters(ctx context.Context, names []string) error {
	root := scope.WithCluster(ctx, scope.Root)
	for _, name := range names {
		if name == scope.Root.String() {
			continue
		}
		cluster := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.client.TenancyV1alpha1().LogicalClusters().Create(root, cluster, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making logical cluster %q: %w", name, err)
		}
	}
	return nil
}

// controlPlane knows the id of the control plane: the UID of "root".
type controlPlane struct {
	client versioned.Interface
	mu     sync.Mutex
	uid    string
}

func (p *controlPlane) id(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uid != "" {
		return p.uid, nil
	}
	root, err := p.client.TenancyV1alpha1().LogicalClusters().Get(scope.With(ctx, scope.Scope{Cluster: scope.Root}), scope.Root.String(), metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the id of the control plane: %w", err)
	}
	if root.UID == "" {
		return "", errors.New("the control plane has no id")
	}
	p.uid = string(root.UID)
	return p.uid, nil
}
