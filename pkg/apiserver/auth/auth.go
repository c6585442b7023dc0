package auth

import (
	"crypto/x509"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	requestunion "k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"
)

// publicPaths need no authentication: what load balancers and clients ask first.
var publicPaths = []string{"/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*", "/version"}

// NewAuthenticator accepts client certificates of ca, then service account
// tokens; a request without credentials is anonymous.
func NewAuthenticator(ca *x509.CertPool, tokens *Tokens) authenticator.Request {
	options := x509request.DefaultVerifyOptions()
	options.Roots = ca
	return requestunion.NewFailOnError(
		group.NewAuthenticatedGroupAdder(requestunion.New(
			x509request.New(options, x509request.CommonNameUserConversion),
			bearertoken.New(tokens),
		)),
		anonymous.NewAuthenticator(nil),
	)
}

// NewAuthorizer asks in this order: the scope, public paths, the admins' group, roles.
func NewAuthorizer(roles *RBAC) (authorizer.Authorizer, error) {
	public, err := path.NewAuthorizer(publicPaths)
	if err != nil {
		return nil, fmt.Errorf("reading the public paths: %w", err)
	}
	return authorizerunion.New(
		authorizerunion.NamedAuthorizer{AuthorizerName: "scopes", Authorizer: unconditional(scopes)},
		authorizerunion.NamedAuthorizer{AuthorizerName: "public", Authorizer: public},
		authorizerunion.NamedAuthorizer{AuthorizerName: "admins", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		authorizerunion.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: roles},
	)
}
