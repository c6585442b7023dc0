package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/aggregation"
	"github.com/atoll-dev/atoll/pkg/apiserver/audit"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/buffers"
	"github.com/atoll-dev/atoll/pkg/apiserver/connections"
	"github.com/atoll-dev/atoll/pkg/apiserver/deletion"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/limits"
	"github.com/atoll-dev/atoll/pkg/apiserver/loopback"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/builtin"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/nodes"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/apiserver/space"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/sharing"
	"github.com/atoll-dev/atoll/pkg/tunnel"
	"github.com/atoll-dev/atoll/pkg/wire"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Config is what a server is made from.
type Config struct {
	// Listener accepts connections; CertFile and KeyFile are what it serves.
	Listener          *connections.Listener
	CertFile, KeyFile string
	PKI               *pki.PKI
	// EtcdServers are the endpoints of etcd, the files how to authenticate there.
	EtcdServers                           []string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// Etcd makes a client of the etcd of EtcdServers if it is in this process, and is nil
	// if it is not.
	Etcd func() *clientv3.Client
	// Admission makes the admission chain; it gets the scoped loopback
	// configuration, whose server does not serve yet.
	Admission func(loopback *restclient.Config) (admission.Interface, error)
	// Bind takes what another scheduler writes to the subresource binding of a Placement.
	Bind native.Bind
	// Bootstrap makes the first objects of a new logical cluster; the creation
	// of its LogicalCluster returns after it.
	Bootstrap func(ctx context.Context, name logicalcluster.Name) error
	// URL is how clients reach the server, without a scope.
	URL string
	// Egress connects to what tenants name.
	Egress *egress.Guard
	// Maps has the labels and annotations of what is in watch caches.
	Maps *sharing.Maps
	// Kinds are those that have copies, or are mirrored.
	Kinds workload.Source
	// Auth says who may be who, Audit what is written down.
	Auth  auth.Options
	Audit audit.Options
	// Reach finds the way into the pods of a physical cluster, Streams counts who is there.
	Reach   pods.Reach
	Streams *pods.Streams
	// Tunnels takes those of syncers: who asks is the syncer of the PhysicalCluster of this name and UID.
	Tunnels func(w http.ResponseWriter, req *http.Request, target string, uid types.UID)
	// GiveStream gives another server a stream through a tunnel to target.
	GiveStream func(w http.ResponseWriter, req *http.Request, target string)
	// SyncerRefused takes note of syncers of versions that do not work with this server.
	SyncerRefused SyncerRefused
	// Space refuses writes that there is no room for; nil if the room is not ours to watch.
	Space *space.Guard
	// ShutdownDelay is how long a server that shuts down serves on.
	ShutdownDelay time.Duration
}

// Server is a composed API server.
type Server struct {
	Generic *genericapiserver.GenericAPIServer
	// Loopback talks to the server itself as the system; each call's context
	// names its scope.
	Loopback *restclient.Config
	// RBAC must run for anyone but admins to be authorized.
	RBAC *auth.RBAC
	// Tokens signs and verifies tokens of service accounts.
	Tokens *auth.Tokens
	// Custom must run for custom resources to be served.
	Custom *CustomResources
	// Aggregation must run for aggregated APIs to be served.
	Aggregation *aggregation.Aggregation
	// Continuity must run for the server to notice that etcd went back in time.
	Continuity *storage.Continuity
	// Deletions must follow informers for answers to deletions to come in time.
	Deletions *deletion.Waiter
	// Stored reads what decisions look at.
	Stored *Stored
	// Watches are those of syncers, and must follow PhysicalClusters to end with them.
	Watches *Watches
}

type existsFunc func(context.Context, logicalcluster.Name) (bool, error)

// New composes the server; nothing runs yet. What it keeps current from files or
// other servers ends with ctx.
func New(ctx context.Context, c Config) (_ *Server, err error) {
	etcd, err := c.etcdClients()
	if err != nil {
		return nil, err
	}
	closeEtcd := sync.OnceFunc(func() {
		if err := etcd.Close(); err != nil {
			klog.Background().Error(err, "Stopping the storage failed")
		}
	})
	defer func() {
		if err != nil {
			closeEtcd()
		}
	}()
	counts := &storage.Counts{}
	g, err := c.genericConfig(etcd, counts)
	if err != nil {
		return nil, err
	}
	inside := loopback.NewTransport()
	g.LoopbackClientConfig = inside.Config(g.LoopbackClientConfig)
	own := scope.ScopedConfig(g.LoopbackClientConfig)
	client, err := kubernetes.NewForConfig(loopback.BuiltIn(own))
	if err != nil {
		return nil, fmt.Errorf("making the loopback client: %w", err)
	}
	objects, err := wire.NewDynamic(own)
	if err != nil {
		return nil, fmt.Errorf("making the loopback client: %w", err)
	}
	tokens, err := auth.NewTokens(c.PKI.ServiceAccountKey, client, c.Auth.Issuers)
	if err != nil {
		return nil, err
	}
	var clusters *logicalClusters
	registered := func(ctx context.Context, name string, meant func(*fleet.PhysicalCluster) bool) (*fleet.PhysicalCluster, error) {
		return clusters.registered(ctx, name, meant)
	}
	watches := newWatches(registered)
	if err := c.authentication(ctx, g, tokens, func(ctx context.Context, name logicalcluster.Name, uid types.UID) (bool, error) {
		return clusters.lives(ctx, name, uid)
	}, registered); err != nil {
		return nil, err
	}
	if err := c.Audit.ApplyTo(g); err != nil {
		return nil, err
	}
	if err := fairly(g); err != nil {
		return nil, err
	}
	defaults, err := auth.NewDefaults()
	if err != nil {
		return nil, err
	}
	roles := auth.NewRBAC(client, defaults)
	requests, reviews, err := auth.NewAuthorizers(roles, c.Kinds)
	if err != nil {
		return nil, err
	}
	g.Authorization.Authorizer = requests
	g.RuleResolver = roles
	if g.AdmissionControl, err = c.Admission(own); err != nil {
		return nil, fmt.Errorf("making the admission chain: %w", err)
	}

	counter := limits.New(limits.Config{Etcd: etcd.All(), Find: func(ctx context.Context, name logicalcluster.Name) (*tenancy.LogicalCluster, error) {
		return clusters.find(ctx, name, func(*tenancy.LogicalCluster) bool { return true })
	}, Bounds: func(ctx context.Context, name string) corev1.ResourceList { return clusters.bounds(ctx, name) }})
	etcd.Guard(counter)
	g.AdmissionControl = counter.Creates(g.AdmissionControl)

	if g.RESTOptionsGetter, err = withDefaults(g.RESTOptionsGetter, defaults, func(ctx context.Context, name logicalcluster.Name) metav1.Time {
		return clusters.born(ctx, name)
	}); err != nil {
		return nil, err
	}
	aggregated, err := aggregation.New(aggregation.Config{Loopback: own, Kube: client, Egress: c.Egress, PKI: c.PKI, Reserved: builtin.Reserved(g.MergedResourceConfig)})
	if err != nil {
		return nil, err
	}
	custom, err := newCustomResources(c, g, etcd, own, client)
	if err != nil {
		return nil, err
	}
	custom.aggregation = aggregated
	waiter, err := deletion.New(own, c.Kinds)
	if err != nil {
		return nil, err
	}
	g.BuildHandlerChainFunc = handlerChain(tokens, func(ctx context.Context, name logicalcluster.Name) (bool, error) {
		return clusters.exists(ctx, name)
	}, counter, func(api http.Handler) http.Handler {
		api = buffers.Dropping(api)
		if c.Space != nil {
			api = c.Space.With(api, g.Serializer)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			custom.Documents.With(waiter.With(api)).ServeHTTP(w, req)
		})
	}, c.SyncerRefused, watches)
	server, err := g.Complete(nil).New("atoll", genericapiserver.NewEmptyDelegateWithCustomHandler(custom.delegate()))
	if err != nil {
		return nil, fmt.Errorf("making the generic server: %w", err)
	}
	stored := &Stored{}
	clusters, err = c.installAPIs(server, g, stored, builtin.Config{
		Authenticator: g.Authentication.Authenticator, Audiences: g.Authentication.APIAudiences,
		Authorizer: requests, Reviewer: reviews, RuleResolver: roles, Tokens: tokens, Kube: client, Dynamic: objects, Kinds: c.Kinds,
		Reach: c.Reach, Streams: c.Streams, DialPods: c.Egress.DialPods,
		Claims: storage.NewClaims(etcd.Client().Client, etcdPrefix+"/claims/"),
	}, tokens)
	if err != nil {
		return nil, err
	}
	if err := custom.install(server, g); err != nil {
		return nil, err
	}
	if c.Streams != nil {
		server.RegisterDestroyFunc(c.Streams.Close)
	}
	server.RegisterDestroyFunc(closeEtcd) // the last of all
	server.AddPostStartHookOrDie("count-objects", func(hook genericapiserver.PostStartHookContext) error {
		go counts.Run(hook)
		return nil
	})
	server.AddPostStartHookOrDie("count-usage", func(hook genericapiserver.PostStartHookContext) error {
		go counter.Run(hook)
		go counter.Report(hook, usageStatus{clusters: clusters, objects: objects})
		return nil
	})
	if err := server.AddReadyzChecks(counted(counter)); err != nil {
		return nil, fmt.Errorf("adding a check of readiness: %w", err)
	}
	for _, path := range []string{auth.OpenIDConfigPath, auth.OpenIDKeysPath} {
		server.Handler.NonGoRestfulMux.Handle(path, tokens.Discovery(c.URL))
	}
	server.Handler.NonGoRestfulMux.Handle(tunnel.Path, acceptTunnels(c.Tunnels))
	server.Handler.NonGoRestfulMux.HandlePrefix(tunnel.PeerPath, giveStreams(c.GiveStream))
	inside.Serve(server.Handler)
	return &Server{Generic: server, Loopback: own, RBAC: roles, Tokens: tokens, Custom: custom, Aggregation: aggregated, Continuity: etcd.Continuity(), Deletions: waiter, Stored: stored, Watches: watches}, nil
}

// installAPIs puts all API groups into the server. Tokens are verified by what is in them.
func (c Config) installAPIs(server *genericapiserver.GenericAPIServer, g *genericapiserver.Config, stored *Stored, b builtin.Config, tokens *auth.Tokens) (*logicalClusters, error) {
	var physical, copies *native.REST
	b.PhysicalClusters = func() nodes.Source { return physical }
	b.Copies = func() rest.Getter { return copies }
	groups, err := builtin.Groups(b, g.MergedResourceConfig, g.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	for _, info := range groups {
		info.NegotiatedSerializer = buffers.Serializer(info.NegotiatedSerializer)
	}
	if err := server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, groups[0]); err != nil {
		return nil, fmt.Errorf("installing the core group: %w", err)
	}
	core, groups := groups[0], groups[1:]
	tokens.ReadFrom(core.VersionedResourcesStorageMap["v1"])

	var clusters *logicalClusters
	own := map[string]*genericapiserver.APIGroupInfo{}
	for _, kind := range native.Kinds() {
		info := own[kind.Group]
		if info == nil {
			i := genericapiserver.NewDefaultAPIGroupInfo(kind.Group, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
			i.NegotiatedSerializer = buffers.Serializer(native.Serializer(legacyscheme.Codecs))
			i.VersionedResourcesStorageMap[kind.Version] = map[string]rest.Storage{}
			info = &i
			own[kind.Group], groups = info, append(groups, info)
		}
		main, status, err := native.NewREST(legacyscheme.Scheme, g.RESTOptionsGetter, kind)
		if err != nil {
			return nil, err
		}
		m := info.VersionedResourcesStorageMap[kind.Version]
		m[kind.Plural] = main
		if status != nil {
			m[kind.Plural+"/status"] = status
		}
		stored.note(kind.Kind, main)
		switch kind.Kind {
		case native.PhysicalCluster().Kind:
			physical = main
		case native.Copy().Kind:
			copies = main
		case native.LogicalCluster().Kind:
			clusters = &logicalClusters{REST: main, bootstrap: c.Bootstrap}
			m[kind.Plural] = clusters
		}
	}
	placements := native.Placement()
	more := own[placements.Group].VersionedResourcesStorageMap[placements.Version]
	for name, review := range native.Reviews() {
		more[name] = review
	}
	more[placements.Plural+"/binding"] = native.NewBindingREST(c.Bind)
	if err := server.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("installing the API groups: %w", err)
	}
	// Upstream's hook for the end of the process holds the groups. What has read the
	// schemas of all kinds has made something of its own of them.
	for _, info := range append(groups, core) {
		info.StaticOpenAPISpec = nil
	}
	clusters.physical = physical
	return clusters, nil
}
