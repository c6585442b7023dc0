package apiserver

import (
	"context"
	"fmt"
	"net"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/builtin"
	"github.com/atoll-dev/atoll/pkg/apiserver/registry/native"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Config is what a server is made from.
type Config struct {
	// Listener accepts connections; CertFile and KeyFile are what it serves.
	Listener          net.Listener
	CertFile, KeyFile string
	PKI               *pki.PKI
	// EtcdServers are the endpoints of etcd, the files how to authenticate there.
	EtcdServers                           []string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// Admission makes the admission chain; it gets the scoped loopback
	// configuration, whose server does not serve yet.
	Admission func(loopback *restclient.Config) (admission.Interface, error)
	// Bootstrap makes the first objects of a new logical cluster; the creation
	// of its LogicalCluster returns after it.
	Bootstrap func(ctx context.Context, name logicalcluster.Name) error
}

// Server is a composed API server.
type Server struct {
	Generic *genericapiserver.GenericAPIServer
	// Loopback talks to the server itself as the system; each call's context
	// names its scope.
	Loopback *restclient.Config
	// RBAC must run for anyone but admins to be authorized.
	RBAC *auth.RBAC
}

type existsFunc func(context.Context, logicalcluster.Name) (bool, error)

// New composes the server; nothing runs yet.
func New(c Config) (*Server, error) {
	g, err := c.genericConfig()
	if err != nil {
		return nil, err
	}
	loopback := scope.ScopedConfig(g.LoopbackClientConfig)
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return nil, fmt.Errorf("making the loopback client: %w", err)
	}
	tokens, err := auth.NewTokens(c.PKI.ServiceAccountKey, client)
	if err != nil {
		return nil, err
	}
	if err := c.authentication(g, tokens); err != nil {
		return nil, err
	}
	roles, err := auth.NewRBAC(client)
	if err != nil {
		return nil, err
	}
	if g.Authorization.Authorizer, err = auth.NewAuthorizer(roles); err != nil {
		return nil, err
	}
	g.RuleResolver = roles
	if g.AdmissionControl, err = c.Admission(loopback); err != nil {
		return nil, fmt.Errorf("making the admission chain: %w", err)
	}

	var clusters *logicalClusters
	g.BuildHandlerChainFunc = handlerChain(func(ctx context.Context, name logicalcluster.Name) (bool, error) {
		return clusters.exists(ctx, name)
	})
	server, err := g.Complete(nil).New("atoll", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("making the generic server: %w", err)
	}
	clusters, err = installAPIs(server, g, builtin.Config{
		Authenticator: g.Authentication.Authenticator, Audiences: g.Authentication.APIAudiences,
		Authorizer: g.Authorization.Authorizer, RuleResolver: roles, Tokens: tokens,
	}, c.Bootstrap)
	if err != nil {
		return nil, err
	}
	return &Server{Generic: server, Loopback: loopback, RBAC: roles}, nil
}

// installAPIs puts all API groups into the server.
func installAPIs(server *genericapiserver.GenericAPIServer, g *genericapiserver.Config, b builtin.Config, bootstrap func(context.Context, logicalcluster.Name) error) (*logicalClusters, error) {
	groups, err := builtin.Groups(b, g.MergedResourceConfig, g.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	if err := server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, groups[0]); err != nil {
		return nil, fmt.Errorf("installing the core group: %w", err)
	}
	groups = groups[1:]

	var clusters *logicalClusters
	own := map[string]*genericapiserver.APIGroupInfo{}
	for _, kind := range native.Kinds() {
		info := own[kind.Group]
		if info == nil {
			i := genericapiserver.NewDefaultAPIGroupInfo(kind.Group, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
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
		if kind.Kind == native.LogicalCluster().Kind {
			clusters = &logicalClusters{REST: main, bootstrap: bootstrap}
			m[kind.Plural] = clusters
		}
	}
	if err := server.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("installing the API groups: %w", err)
	}
	return clusters, nil
}

// exists asks the watch cache first, and etcd for what it does not know (yet).
func (l *logicalClusters) exists(ctx context.Context, name logicalcluster.Name) (bool, error) {
	root := scope.With(ctx, scope.Scope{Cluster: scope.Root})
	for _, options := range []metav1.GetOptions{{ResourceVersion: "0"}, {}} {
		_, err := l.REST.Get(root, name.String(), &options)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	return false, nil
}
