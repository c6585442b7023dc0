package auth

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	requestunion "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// publicPaths need no authentication: what load balancers and clients ask first.
var publicPaths = []string{"/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*", "/version"}

// Config is what authentication stands on.
type Config struct {
	// CA is the authority of clients of the whole control plane, TenantsCA that of
	// clients of one logical cluster.
	CA, TenantsCA *x509.CertPool
	// Lives says whether there is a logical cluster of this name with this UID.
	Lives func(context.Context, logicalcluster.Name, types.UID) (bool, error)
	// Registered is the PhysicalCluster of a name for which the function holds, if there is one,
	// else any of the name, or nil.
	Registered func(context.Context, string, func(*fleet.PhysicalCluster) bool) (*fleet.PhysicalCluster, error)
	// Accounts verifies the tokens of service accounts.
	Accounts *Tokens
	Options  Options
	// Leaving is called for a request before identity providers are asked about it, who may take their time.
	Leaving func(context.Context)
	// ServerID tells servers apart in metrics.
	ServerID string
}

// NewAuthenticator accepts client certificates, then the tokens that the options
// name and those of service accounts. A request without credentials is anonymous,
// unless the options say otherwise. Identity providers and their keys are kept
// current until ctx ends.
func NewAuthenticator(ctx context.Context, c Config) (authenticator.Request, error) {
	o, accounts := c.Options, c.Accounts
	jwts, err := newConfigured(ctx, o, c.ServerID)
	if err != nil {
		return nil, err
	}
	var bearers []authenticator.Token
	if o.TokenFile != "" {
		static, err := tokenfile.NewCSV(o.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading --token-auth-file: %w", err)
		}
		bearers = append(bearers, authenticator.WrapAudienceAgnosticToken(accounts.audiences, static))
	}
	// Identity providers come after service accounts: a token that they do not
	// know makes them ask for new keys.
	bearers = append(bearers, accounts, authenticator.WrapAudienceAgnosticToken(accounts.audiences, leaving{jwts, c.Leaving}))
	tokens := tokenunion.New(bearers...)

	known := group.NewAuthenticatedGroupAdder(requestunion.New(
		syncers{verified: verifying(c.CA), registered: c.Registered}, tenants{verified: verifying(c.TenantsCA), lives: c.Lives},
		bearertoken.New(tokens),
		websocket.NewProtocolAuthenticator(tokens),
	))
	go jwts.follow(ctx)
	anybody := jwts.anonymous
	if anybody == nil {
		anybody = &apiserver.AnonymousAuthConfig{Enabled: true}
	}
	if !anybody.Enabled {
		return known, nil
	}
	return requestunion.NewFailOnError(known, anonymous.NewAuthenticator(anybody.Conditions)), nil
}

// leaving calls somebody before a token is looked at.
type leaving struct {
	authenticator.Token
	call func(context.Context)
}

// AuthenticateToken implements authenticator.Token.
func (l leaving) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if l.call != nil {
		l.call(ctx)
	}
	return l.Token.AuthenticateToken(ctx, token) //nolint:wrapcheck // an answer
}

// NewAuthorizers makes what decides requests, and what answers access reviews. Both
// ask in this order: the scope, public paths, the admins' group, roles; for
// requests, the rule for this server's own paths comes first. A syncer may do what it
// needs for the kinds that there are.
func NewAuthorizers(roles *RBAC, kinds workload.Source) (requests, reviews authorizer.Authorizer, err error) {
	public, err := path.NewAuthorizer(publicPaths)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the public paths: %w", err)
	}
	reviews, err = authorizerunion.New(
		authorizerunion.NamedAuthorizer{AuthorizerName: "scopes", Authorizer: unconditional(views{kinds}.scopes)},
		authorizerunion.NamedAuthorizer{AuthorizerName: "public", Authorizer: public},
		authorizerunion.NamedAuthorizer{AuthorizerName: "admins", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		authorizerunion.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: roles},
	)
	if err != nil {
		return nil, nil, fmt.Errorf("making the authorizer of reviews: %w", err)
	}
	requests, err = authorizerunion.New(
		authorizerunion.NamedAuthorizer{AuthorizerName: "paths", Authorizer: unconditional(serverPaths)},
		authorizerunion.NamedAuthorizer{AuthorizerName: "reviews", Authorizer: reviews},
	)
	if err != nil {
		return nil, nil, fmt.Errorf("making the authorizer of requests: %w", err)
	}
	return requests, reviews, nil
}
