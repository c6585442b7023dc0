package apiserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/connections"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/apiserver/limits"
	"github.com/atoll-dev/atoll/pkg/apiserver/loopback"
	"github.com/atoll-dev/atoll/pkg/apiserver/usage"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/skew"
)

// handlerChain is upstream's, with bounds and the scope in front and, behind authorization,
// what depends on the logical cluster: documents, if not nil, answers discovery.
func handlerChain(tokens *auth.Tokens, exists existsFunc, counter *limits.Counter, documents func(http.Handler) http.Handler, refused SyncerRefused, watches *Watches) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, g *genericapiserver.Config) http.Handler {
		if documents != nil {
			api = documents(api)
		}
		g.FeatureGate = withoutConstrainedImpersonation{g.FeatureGate}
		api = fairness.Refusing(api, func(w http.ResponseWriter, c logicalcluster.Name, most int) {
			limits.Refuse(w, c, "requestsInFlight", fmt.Sprintf("has %d requests in flight at this server, and too many that wait", most), int64(most))
		})
		api = watches.with(withVersions(api, skew.Current(), refused))
		served := genericapiserver.DefaultBuildHandlerChain(withExisting(usage.New().With(counter.Watches(withNamedNamespace(api))), api, exists), g)
		return withBoundedURI(connections.Leaving(WithScope(fairness.NewLimiter(counter.InFlight, loopback.Is).With(withLoggedURI(served)), tokens.ClusterOf), g.ShutdownInitiatedNotify()), clock.RealClock{})
	}
}

func (c Config) authentication(ctx context.Context, g *genericapiserver.Config, tokens *auth.Tokens, lives livesFunc, registered registeredFunc) (err error) {
	all, tenants := x509.NewCertPool(), x509.NewCertPool()
	if !all.AppendCertsFromPEM(c.PKI.CAPEM) || !tenants.AppendCertsFromPEM(c.PKI.TenantsCAPEM) {
		return errors.New("reading the certificate authorities: no certificate found")
	}
	g.Authentication.APIAudiences = authenticator.Audiences{auth.Audience}
	known, err := auth.NewAuthenticator(ctx, auth.Config{
		CA: all, TenantsCA: tenants, Lives: lives, Registered: registered, Accounts: tokens, Options: c.Auth, Leaving: fairness.Entered, ServerID: g.APIServerID,
	})
	g.Authentication.Authenticator = recognizing{known, c.Listener}
	return err
}

// withoutConstrainedImpersonation leaves upstream's older impersonation in the
// chain. The newer one remembers for ten seconds that a user may impersonate
// another, by their names: what is allowed in one logical cluster would be
// allowed in the next one.
type withoutConstrainedImpersonation struct{ featuregate.FeatureGate }

// Enabled implements featuregate.FeatureGate.
func (g withoutConstrainedImpersonation) Enabled(feature featuregate.Feature) bool {
	return feature != genericfeatures.ConstrainedImpersonation && g.FeatureGate.Enabled(feature)
}

// fairly shares the server between logical clusters, by the objects in root.
func fairly(g *genericapiserver.Config) error {
	client, err := kubernetes.NewForConfig(loopback.BuiltIn(scope.PinnedConfig(g.LoopbackClientConfig, scope.Scope{Cluster: scope.Root})))
	if err != nil {
		return fmt.Errorf("making the client of priority and fairness: %w", err)
	}
	return fairness.Apply(g, client, concurrencyLimit)
}

// recognizing notes whose a connection is as soon as somebody is authenticated.
type recognizing struct {
	authenticator.Request
	connections *connections.Listener
}

// AuthenticateRequest implements authenticator.Request.
func (r recognizing) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := r.Request.AuthenticateRequest(req)
	if !ok || err != nil || response.User.GetName() == user.Anonymous {
		return response, ok, err
	}
	owner := response.User.GetName()
	if c, scoped := scope.ClusterFrom(req.Context()); scoped && auth.IsBound(req.Context()) {
		owner = "of " + c.String() // whoever makes accounts there gets no more by it
	}
	r.connections.Authenticated(req.RemoteAddr, owner, slices.Contains(response.User.GetGroups(), user.SystemPrivilegedGroup))
	return response, ok, err
}
