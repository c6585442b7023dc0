package apiserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/apiserver/loopback"
	"github.com/atoll-dev/atoll/pkg/apiserver/usage"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// handlerChain is upstream's, with bounds and the scope in front and, behind authorization,
// what depends on the logical cluster: documents, if not nil, answers discovery.
func handlerChain(tokens *auth.Tokens, exists existsFunc, documents func(http.Handler) http.Handler) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, g *genericapiserver.Config) http.Handler {
		if documents != nil {
			api = documents(api)
		}
		g.FeatureGate = withoutConstrainedImpersonation{g.FeatureGate}
		served := genericapiserver.DefaultBuildHandlerChain(withExisting(usage.New().With(withNamedNamespace(api)), api, exists), g)
		return withBoundedURI(WithScope(fairness.NewLimiter().With(served), tokens.ClusterOf))
	}
}

func (c Config) authentication(ctx context.Context, g *genericapiserver.Config, tokens *auth.Tokens, lives livesFunc) (err error) {
	all, tenants := x509.NewCertPool(), x509.NewCertPool()
	if !all.AppendCertsFromPEM(c.PKI.CAPEM) || !tenants.AppendCertsFromPEM(c.PKI.TenantsCAPEM) {
		return errors.New("reading the certificate authorities: no certificate found")
	}
	g.Authentication.APIAudiences = authenticator.Audiences{auth.Audience}
	g.Authentication.Authenticator, err = auth.NewAuthenticator(ctx, auth.Config{
		CA: all, TenantsCA: tenants, Lives: lives, Accounts: tokens, Options: c.Auth, ServerID: g.APIServerID,
	})
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
